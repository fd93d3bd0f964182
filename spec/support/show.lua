-- Returns the entries of effects as text: "kind key:old>new" for each.

return function(fx)
  local list = {}
  for e in fx:entries() do
    list[#list + 1] = ("%s %s:%s>%s"):format(e.kind, e.key, e.old, e.new)
  end
  return table.concat(list, ", ")
end
