-- Calls f(object, again) for new objects, which are garbage afterwards, until a
-- thousand of them had the address of an earlier one; `again` says so.

local ENOUGH, MOST = 1000, 5000000

return function(f)
  local seen, n = {}, 0
  for i = 1, MOST do
    local object = {}
    local address = ("%p"):format(object)
    local again = seen[address] ~= nil
    seen[address] = true
    f(object, again)
    if again then n = n + 1 end
    if n == ENOUGH then return end
    if i % 10000 == 0 then collectgarbage() end
  end
  error "addresses do not come back"
end
