-- The site that `make docs` builds.

local files = require "docs.make.files"
local highlight = require "docs.make.highlight"
local markdown = require "docs.make.markdown"
local shell = require "spec.support.shell"

local function html(text)
  local function link(path) return path ~= "../x.lua" and path or nil end
  local function code(its) return its end
  return markdown(text, link, code).html
end

describe("a page", function()
  it("has headings with the anchors that forges give them", function()
    local page = markdown("# A *b* `mw.x(y)`\n\nText.\n", print, tostring)
    assert.equal("A b mw.x(y)", page.title)
    assert.equal("a-b-mwxy", page.sections[1].anchor)
    assert.same({ "Text." }, page.sections[1].words)
    assert.matches('<h1 id="a%-b%-mwxy">', page.html)
  end)

  it("has paragraphs, lists and tables", function()
    assert.equal("<p>a\nb</p>\n<p>c</p>", html "a\nb\n\nc\n")
    assert.equal("<ul>\n<li>a b</li>\n<li>c</li>\n</ul>",
      html "- a\n  b\n- c\n")
    assert.equal("<ol>\n<li>a</li>\n</ol>", html "1. a\n")
    assert.equal('<div class="table"><table>\n' ..
      "<tr><th>a</th><th>b</th></tr>\n" ..
      "<tr><td>c</td><td><code>d|e</code></td></tr>\n</table></div>",
      html "| a | b |\n|---|---|\n| c | `d\\|e` |\n")
  end)

  it("has code as it is", function()
    assert.equal('<pre><code class="sh">a *b* &lt;c&gt;</code></pre>',
      html "```sh\na *b* <c>\n```\n")
    assert.equal("<p><code>*a* [b](c) &lt;close&gt;</code></p>",
      html "`*a* [b](c) <close>`\n")
  end)

  it("has links, pictures and emphasis", function()
    assert.equal('<p><a href="b.md#c">a <code>x</code></a></p>',
      html "[a `x`](b.md#c)\n")
    assert.equal("<p>a</p>", html "[a](../x.lua)\n")
    assert.equal('<p><img src="b.png" alt="a"></p>', html "![a](b.png)\n")
    assert.equal("<p><strong>a b</strong> <em>c</em> 2 * 3 * 4</p>",
      html "**a b** *c* 2 * 3 * 4\n")
    assert.equal("<p>&lt;b&gt; &amp; a<br>b</p>", html "<b> & a<br>b\n")
  end)

  it("leaves comments out", function()
    assert.equal("<p>a</p>", html "<!-- reference:x -->\na\n")
  end)
end)

describe("Lua code", function()
  it("has colours, and loses nothing", function()
    assert.equal('<span class="k">local</span> s = <span class="s">' ..
      '&quot;a&quot;</span> .. <span class="n">0x1F</span> ' ..
      '<span class="c">-- b</span>\n<span class="o">--&gt; c</span>',
      highlight.lua 'local s = "a" .. 0x1F -- b\n--> c')
    for path in io.popen "ls lua/moonwatch/*.lua spec/*.lua":lines() do
      local text = files.read(path)
      assert.equal(highlight.escape(text),
        (highlight.lua(text):gsub("<.->", "")), path)
    end
  end)
end)

describe("the site", function()
  it("has a page for each page, and links that lead somewhere", function()
    shell.with_directory(function(path)
      local output, ok = shell.run("%s docs/make/site.lua %s",
        os.getenv "LUA" or "lua5.4", path)
      assert.is_true(ok, output)
      for _, page in ipairs(files.pages()) do
        local name = page:match "^docs/(.*)%.md$"
        local text = files.read(path .. "/" .. name .. ".html")
        assert.matches("<h1 ", text, name)
        assert.is_nil(text:find "[\1\2\3]", name)
        assert.is_nil(text:find "%$%u%u%u", name)
      end
      local names = files.read(path .. "/names.js")
      assert.is_truthy(names:find('["mw.watch","watch.html#mwwatch"', 1, true))
    end)
  end)
end)
