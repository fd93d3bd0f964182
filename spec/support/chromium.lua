-- A browser without a window that does what a person does, over Chromium's
-- DevTools protocol: JSON texts that end with a zero, through two pipes.

local json = require "spec.support.json"
local mw = require "moonwatch"

local COMMAND = "chromium --headless --no-sandbox --disable-gpu " ..
  "--window-size=1200,1000 --user-data-dir=%s/profile " ..
  "--remote-debugging-pipe 3<%s/in 4>%s/out >/dev/null 2>&1 &"

local Browser = {}
Browser.__index = Browser

-- Reads a message.
local function read(self)
  local list = {}
  while true do
    local c = assert(self.out:read(1), "the browser has ended")
    if c == "\0" then return json.decode(table.concat(list)) end
    list[#list + 1] = c
  end
end

-- Calls a method of the protocol and returns its result.
function Browser:call(method, params)
  self.id = self.id + 1
  local message = mw.object_like { id = self.id, method = method,
    params = mw.object_like(params or {}), sessionId = self.session }
  self.into:write(json.encode(message), "\0")
  self.into:flush()
  while true do
    local answer = read(self)
    if answer.method == "Runtime.exceptionThrown" then
      local details = answer.params.exceptionDetails
      self.errors[#self.errors + 1] = details.exception and
        details.exception.description or details.text
    end
    if answer.id == self.id then
      if answer.error then error(method .. ": " .. answer.error.message) end
      return answer.result
    end
  end
end

-- Returns the value of an expression in the page; a promise is awaited.
function Browser:eval(expression)
  local answer = self:call("Runtime.evaluate", { expression = expression,
    returnByValue = true, awaitPromise = true })
  if answer.exceptionDetails then
    error(expression .. ": " .. answer.exceptionDetails.exception.description)
  end
  return answer.result.value
end

-- Waits until the page has drawn.
function Browser:settle()
  self:eval("new Promise(done => setTimeout(() => requestAnimationFrame(" ..
    "() => requestAnimationFrame(done)), 30))")
end

-- Opens a page.
function Browser:open(url)
  self:call("Page.navigate", { url = url })
  while not self:eval "document.readyState === 'complete'" do
    self:eval "new Promise(done => setTimeout(done, 50))"
  end
  self:settle()
end

-- Modifiers: 2 is Ctrl, 8 is Shift.
function Browser:mouse(kind, x, y, more)
  local event = { type = kind, x = x, y = y }
  for key, value in pairs(more or {}) do event[key] = value end
  self:call("Input.dispatchMouseEvent", event)
end

function Browser:move(x, y)
  self:mouse("mouseMoved", x, y)
  self:settle()
end

function Browser:wheel(x, y, by, modifiers)
  self:mouse("mouseWheel", x, y,
    { deltaX = 0, deltaY = by, modifiers = modifiers })
  self:settle()
end

-- Moves from one place to another with the button down; a click where both are
-- the same.
function Browser:drag(x, y, to_x, to_y, modifiers, clicks)
  local more = { button = "left", buttons = 1, clickCount = clicks or 1,
    modifiers = modifiers }
  self:mouse("mouseMoved", x, y)
  self:mouse("mousePressed", x, y, more)
  if to_x ~= x or to_y ~= y then
    self:mouse("mouseMoved", (x + to_x) // 2, (y + to_y) // 2, more)
    self:mouse("mouseMoved", to_x, to_y, more)
  end
  self:mouse("mouseReleased", to_x, to_y, more)
  self:settle()
end

function Browser:click(x, y, clicks) self:drag(x, y, x, y, nil, clicks) end

-- Presses a key: a character, or the name of another key.
function Browser:key(key)
  local text = #key == 1 and key or key == "Enter" and "\r" or nil
  self:call("Input.dispatchKeyEvent", { type = text and "keyDown" or
    "rawKeyDown", key = key, text = text,
    windowsVirtualKeyCode = key == "Enter" and 13 or nil })
  self:call("Input.dispatchKeyEvent", { type = "keyUp", key = key })
  self:settle()
end

function Browser:type(text)
  for c in text:gmatch "." do self:key(c) end
end

local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" ..
  "0123456789+/"

local function bytes_of(text)
  local values, list, n, bits = {}, {}, 0, 0
  for i = 1, 64 do values[DIGITS:byte(i)] = i - 1 end
  for i = 1, #text do
    local value = values[text:byte(i)]
    if value then
      n, bits = n << 6 | value, bits + 6
      if bits >= 8 then
        bits = bits - 8
        list[#list + 1] = string.char(n >> bits & 255)
        n = n & (1 << bits) - 1
      end
    end
  end
  return table.concat(list)
end

-- Writes a picture of the page.
function Browser:picture(path)
  self:settle()
  local answer = self:call("Page.captureScreenshot", { format = "png" })
  local file = assert(io.open(path, "w"))
  file:write(bytes_of(answer.data))
  file:close()
end

function Browser:scheme(name)
  self:call("Emulation.setEmulatedMedia", { features = mw.array {
    mw.object_like { name = "prefers-color-scheme", value = name } } })
  self:settle()
end

function Browser:close()
  self.session = nil
  pcall(self.call, self, "Browser.close")
  self.into:close()
  self.out:read "a" -- until the process has ended
  self.out:close()
end

-- Starts a browser, which keeps its files in a directory.
return function(path)
  assert(os.execute(("mkfifo %s/in %s/out"):format(path, path)))
  os.execute(COMMAND:format(path, path, path))
  local self = setmetatable({ id = 0, errors = {} }, Browser)
  self.into = assert(io.open(path .. "/in", "w"))
  self.out = assert(io.open(path .. "/out", "r"))
  local target = self:call("Target.createTarget", { url = "about:blank" })
  self.session = self:call("Target.attachToTarget",
    { targetId = target.targetId, flatten = true }).sessionId
  self:call "Page.enable"
  self:call "Runtime.enable"
  return self
end
