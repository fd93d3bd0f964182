-- keys(obj): the keys that `pairs` shows, in order, as one text.
return function(obj)
  local list = {}
  for key in pairs(obj) do list[#list + 1] = tostring(key) end
  table.sort(list)
  return table.concat(list, " ")
end
