local shell = require "spec.support.shell"

local function lua(path)
  local output, ok = shell.run("%s %s", os.getenv "LUA" or "lua5.4", path)
  assert.is_true(ok, output)
  return output
end

describe("the examples", function()
  it("tell a story", function()
    local output = lua "examples/story.lua"
    assert.matches("1001 sprites are on the card", output)
    assert.matches("1000 sprites were freed; left: hero.png", output)
    assert.matches("computed 2 times: through the water", output)
    assert.matches("open, shut or locked. It is still locked", output)
    assert.matches("A copy for printing: locked, open", output)
    assert.matches("Frame 2: of 100002 things, only the fox is new", output)
    assert.matches("It never happened: 10 hp, 3 gold", output)
    assert.matches("A spell: false, the wand breaks", output)
    assert.matches("Nothing of it is left: 10 hp, 3 gold", output)
    assert.matches("Undone: arm, rename; he is the knight again", output)
    assert.matches("rename; meet Sir Robin, who has no sword", output)
    assert.matches("one is off: he has 3 gold and an axe", output)
    assert.matches('Where is the axe%?\nweapon of Knight#%d+: "axe" %-> ' ..
      'nil, examples/story.lua:%d+, transaction "fire", by the dragon\n' ..
      '  because hp of Knight#%d+: 10 %-> 0, ', output)
    assert.matches("legs of it: Walker, Walker.legs.2, Walker.legs.1", output)
    assert.matches("L%['at'%]%['y'%] is constant: 3\n", output)
    assert.matches("Like all trolls: true; not like them: false, in " ..
      "L%['at'%]%['x'%]", output)
  end)

  it("edit a policy while it runs", function()
    local output = lua "examples/policy.lua"
    local decisions = {}
    for reason in output:gmatch 'by rule "([^"]+)"' do
      decisions[#decisions + 1] = reason
    end
    assert.equal("default default default default enemies enemies " ..
      "default minions bosses default minions bosses default default default",
      table.concat(decisions, " "))
  end)

  it("undo and redo in an editor", function()
    local output = lua "examples/undo.lua"
    local texts = {}
    for text in output:gmatch ": ([^\n]* / [^\n]*)\n" do
      texts[#texts + 1] = text
    end
    local new, typed = "It was a / night.", "It was a dark / night."
    local split = "It / was a dark / night."
    local bold = "It / was a dark / *night.*"
    local unsaved = " (not saved)"
    assert.same({
      new, typed .. unsaved, bold .. unsaved, bold, bold,
      bold .. unsaved, split .. unsaved, typed .. unsaved, new .. unsaved,
      new .. unsaved, typed .. unsaved, split .. unsaved, bold .. unsaved,
      "It / was a dark / *night...*" .. unsaved,
    }, texts)
    assert.matches("\nline 3 is protected +Paul Clifford: ", output)
    assert.matches("\nsteps: typing, split, bold, typing\n$", output)
  end)

  it("try out plans and do the best", function()
    local output = lua "examples/speculate.lua"
    local now = output:match "\nstill +([^\n]+)\n"
    local best = output:match "\nbuy a sword, fight +([^\n]+)\n"
    assert.equal(now, output:match "^now +([^\n]+)\n")
    assert.matches("10 hp,  5 gold, at the camp with bread, and a troll", now)
    assert.matches("6 hp, 30 gold, at the bridge with bread and sword", best)
    assert.matches("best: buy a sword, fight %(9 writes%)", output)
    assert.equal(best, output:match "\ndone +([^\n]+)\n$")
  end)

  it("show each viewer what changed since it looked", function()
    local output = lua "examples/feed.lua"
    assert.matches("frame 1: 5 sprites drawn, 1 made, 1 freed", output)
    assert.matches("frame 4: 6 sprites drawn", output)
    assert.matches("  52 changes for the first client\n", output)
    assert.matches("joins with a snapshot of %d+ bytes\n.-  33 changes for " ..
      "the second client\n", output)
    assert.matches("the first client has the same world: true\n", output)
    assert.matches("the second client has the same world: true\n", output)
  end)

  it("name the write in which two runs differ", function()
    local output = lua "examples/desync.lua"
    local lines, n = {}, 0
    for line in io.lines "examples/desync.lua" do lines[#lines + 1] = line end
    for first, second in output:gmatch("frame %d+: the first write that " ..
      "differs\n  first:  ([^\n]+)\n  second: ([^\n]+)\n") do
      n = n + 1
      assert.is_true(first ~= "no write" or second ~= "no write")
      for _, text in ipairs { first, second } do
        if text == "no write" then text = first == text and second or first end
        local line = text:match("^[%w_]+ of root%.units%[%d+%]: .- %-> .*, " ..
          "examples/desync.lua:(%d+)$")
        assert.matches("shot%.target%.[%w_]+ = ", lines[tonumber(line)])
      end
    end
    assert.equal(2, n)
    assert.matches("in a list:\n800 frames, each the same again\n$", output)
  end)

  it("say who wrote nil, and why", function()
    local output = lua "examples/why.lua"
    local function at(text)
      local n = 0
      for line in io.lines "examples/why.lua" do
        n = n + 1
        if line:find(text, 1, true) then return "examples/why.lua:" .. n end
      end
    end
    assert.is_truthy(output:find(([[
Why has the captain no target?
target of Battle.captain: Battle.orcs.1 -> nil, %s, transaction "shoot", by Bo
  because fallen of Battle.orcs.1: nil -> true, %s, transaction "shoot", by Bo
  because hp of Battle.orcs.1: 9 -> 0, %s, transaction "shoot", by Bo
]]):format(at "target = nil", at "fallen = true", at "target.hp = "), 1, true),
      output)
    assert.matches("an order of Bo. Before, the captain aimed at Grub.", output)
    assert.matches("shots of Battle.captain: nil %-> 1, .* by Ann, rolled back",
      output)
  end)

  it("learn what messages look like", function()
    local output = lua "examples/specialise.lua"
    assert.matches("\n    if not %(v == \"move\"%) then return 3 end\n", output)
    assert.matches("\nother: L%['version'%]\nother: L%['id'%]\n" ..
      "other: L%['to'%]\nother: L\n", output)
    assert.matches("800 messages went the fast way, 204 the slow one", output)
    local factor = output:match "The fast way is (%d+%.%d) times as fast"
    assert.is_true(tonumber(factor) > 1)
  end)

  it("have a C program without Lua", function()
    shell.with_directory(function(path)
      local output, ok = shell.run(
        "%s -std=c11 -Wall -Wextra -Werror -I engine -o %s/host " ..
        "examples/host.c engine/*.c && %s %s/host", os.getenv "CC" or "cc",
        path, os.getenv "RUN" or "", path)
      assert.is_true(ok, output)
      assert.equal("frame 0: the Argo is new\nframe 1: the Beagle is new\n" ..
        "frame 2: the Calypso is new\nsunk, 2 ships left\n", output)
    end)
  end)

  it("play a roguelike with saves and monsters that think", function()
    local output = lua "examples/roguelike.lua"
    local drawn = {}
    for rows in output:gmatch ": (%d+) rows drawn" do
      drawn[#drawn + 1] = rows
    end
    assert.equal("3 4 0 2 3 1 2", table.concat(drawn, " "))
    assert.matches("%-%- there is a wall\n%-%- turn 2: 0 rows", output)
    assert.matches("orc: 7 hp lost\nthe orc falls\n", output)
    assert.matches("loaded 6 turns, less than 2 KB: the same level\n$", output)
  end)

  it("edit a text that comes back after a crash", function()
    local output = lua "examples/editor.lua"
    assert.matches("saved: shopping, 4 words, line 3\n 1 pears\n" ..
      " 2 apples  <here>\n 3 old plums\n", output)
    assert.matches("! no 'kiwis' found\n! a name has no '/'\n! there is no " ..
      "line 9\n%-%- edited: shopping%*, 3 words", output)
    assert.matches("undone: shopping, 4 words", output)
    assert.matches("redo sort lines\nnothing to redo\n", output)
    assert.matches("words were counted 4 times\n", output)
    assert.matches("recovered 3 lines from 20 steps: as it was\n$", output)
  end)

  it("explain why a program is built again", function()
    local output = lua "examples/build.lua"
    local function builds(what)
      return output:match("%-%- " .. what .. "\n(.-)%f[-\0]") or ""
    end
    assert.equal("nothing to do\n", builds "again")
    assert.equal("list.o   because list.c was edited\n" ..
      "program  because list.o was built\n", builds "list.c was edited")
    assert.equal("nothing to do\n", builds "text.c was saved without a change")
    assert.equal("program  because name was game and is game2\n",
      builds "the program has another name")
    assert.matches("back from the branch\nmain.o   because flags was %-O3 " ..
      "and is %-O2\n", output)
    assert.matches("game2: %[%-O2 12%] %[%-O2 54%] %[%-O2 76%]\n$", output)
  end)
end)
