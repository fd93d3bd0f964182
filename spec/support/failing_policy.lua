-- A policy file for scenarios.lua: a rule for each way to fail, and one good
-- rule.

return {
  rules = {
    { "class", function(obj)
      if obj.fixed then return "fixed: " .. obj.fixed end
    end },
    { "raises", function(obj) error("there is no field " .. obj.name) end },
    { "raises a table", function() error {} end },
    { "spends", function()
      local s = "x"
      while true do s = s .. s end
    end },
    { "catches", function(obj) return pcall(obj.spend) end },
    { "caught", pcall },
    { "answers", function(obj) return "answer: " .. obj.name end },
  },
}
