local mw = require "moonwatch"
local shell = require "spec.support.shell"

-- Checks that all writes while `f` runs are noted in the lines of `f`.
local function check(what, f)
  local tx = mw.begin { where = true }
  local ok, message = pcall(f)
  local fx, info = tx:commit(), debug.getinfo(f, "S")
  assert.is_true(ok, message)
  assert.is_true(fx:len() > 0, what)
  for e in fx:entries() do
    local name, at = tostring(e.where):match "([%w_]+%.lua):(%d+)$"
    assert.equal("where_spec.lua", name, what)
    assert.is_true(info.linedefined <= tonumber(at), what)
    assert.is_true(tonumber(at) <= info.lastlinedefined, what)
  end
end

local function new_document()
  return { n = 0, list = { 1, 2, 3 }, deep = { a = { b = 1 } } }
end

describe("the place of a write that the library makes", function()
  local doc, fx, bytes, operations

  before_each(function()
    doc = mw.track(new_document(), { deep = true })
    fx = select(2, mw.transaction(function()
      doc.n, doc.deep.a.b = 1, 2
      table.insert(doc.list, 1, { 0 })
      doc.deep.new = mw.object_like { x = { 1 } }
    end))
    bytes, operations = fx:to_bytes(doc), fx:to_patch(doc)
    fx:rollback()
  end)

  after_each(function() mw.untrack(doc) end)

  it("is the line of the program that called the library", function()
    check("apply", function() fx:apply() end)
    check("rollback", function() fx:rollback() end)
    check("patch", function() mw.patch(doc, operations) end)
    fx:rollback()
    check("patch_bytes", function() mw.patch_bytes(doc, bytes) end)
    fx:rollback()
    doc.n = 9
    check("apply with on_conflict", function()
      fx:apply { on_conflict = function() return "overwrite" end }
    end)
    check("setmetatable", function() mw.setmetatable(doc.deep, {}) end)
  end)

  it("is the line that applied a plan", function()
    local plan = mw.plan()
    plan:track(doc)
    plan:track(doc.list)
    plan:store(doc, "n", 3)
    plan:store(doc.list, 1, plan:track_new {})
    check("plan", function() plan:apply() end)
  end)

  it("is the line that undid or redid a step", function()
    local history = mw.history()
    history:run("step", function() doc.n, doc.list[1] = 5, 6 end)
    check("undo", function() history:undo() end)
    check("redo", function() history:redo() end)
  end)

  it("is the statement in a function that the library calls", function()
    check("batch", function()
      mw.batch(function() doc.n = 7 end)
    end)
    check("transaction", function()
      mw.transaction(function() doc.n = 8 end)
    end)
    check("a class", function()
      local object = mw.track(setmetatable({}, {
        __newindex = function(t, k, v) rawset(t, k, v) end,
      }))
      object.x = 1
    end)
  end)

  it("is in coroutines as everywhere", function()
    check("coroutine", function()
      coroutine.wrap(function() fx:apply() end)()
    end)
  end)
end)

-- A program whose library has the paths that files have on Windows: `first` is
-- that of moonwatch, `format` makes the path of a module inside.
local PROGRAM = [[
local first, format = ...
table.insert(package.searchers, 2, function(name)
  local path = package.searchpath(name, package.path)
  if not path or not name:find "^moonwatch" then return end
  local file = io.open(path, "rb")
  local text = file:read "a"
  file:close()
  return load(text, "@" .. (name == "moonwatch" and first or
    format:format((name:gsub("%.", "\\")))))
end)
local mw = require "moonwatch"
local doc = mw.track({ n = 0 }, { deep = true })
local _, fx = mw.transaction(function() doc.n = 1 end)
local operations = fx:to_patch(doc)
fx:rollback()
for _, f in ipairs { fx.apply, function() mw.patch(doc, operations) end } do
  local tx = mw.begin { where = true }
  f(fx)
  for e in tx:commit():entries() do io.write(e.where:match "[^/]*$", " ") end
  fx:rollback()
end
local plan = mw.plan()
plan:track(doc)
doc.n = 5
plan:store(doc, "n", 3)
local ok, message = pcall(plan.apply, plan)
io.write(ok and "applied" or message:match "[^/]*$")
]]

describe("the library's own files", function()
  it("are known by separators of any kind", function()
    shell.with_directory(function(path)
      local file = assert(io.open(path .. "/program.lua", "w"))
      file:write(PROGRAM)
      file:close()
      local expected
      for _, paths in ipairs { { "/lua/moonwatch/init.lua", "/lua/%s.lua" },
        { "C:\\lua\\moonwatch\\init.lua", "C:\\lua\\%s.lua" },
        { "lua/moonwatch/init.lua", "lua/%s.lua" } } do
        local output, ok = shell.run("%s %s/program.lua '%s' '%s'",
          os.getenv "LUA" or "lua5.4", path, paths[1], paths[2])
        assert.is_true(ok, output)
        assert.matches("^program.lua:%d+ program.lua:%d+ ", output)
        expected = expected or output
        assert.equal(expected, output)
      end
    end)
  end)
end)
