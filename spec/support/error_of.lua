-- Returns the error with which a call ends.

return function(f, ...)
  local ok, message = pcall(f, ...)
  if ok then error("there was no error", 2) end
  return message
end
