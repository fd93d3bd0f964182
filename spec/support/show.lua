-- The entries of effects as text: one "kind key:old>new" each.

return function(fx)
  local list = {}
  for e in fx:entries() do
    list[#list + 1] = ("%s %s:%s>%s"):format(e.kind, e.key, e.old, e.new)
  end
  return table.concat(list, ", ")
end
