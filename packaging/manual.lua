-- Makes one manual of the pages of docs/: each page is a chapter. Links between pages become cross-references; what
-- leads to a file of the repository keeps only its text. Headings are unique in the manual, since they name its nodes.
-- The page of the Emacs package has index entries for its commands, options and keys; EDN_BRIDGE_SYMBOLS names a file that
-- says which is which.

local files = PANDOC_STATE.input_files

local function page_of(path)
  if path:match("emacs/README%.md$") then return "emacs" end
  return path:match("([%w-]+)%.md$")
end

local pages = {}
for _, file in ipairs(files) do pages[page_of(file)] = true end

-- The identifier that GitHub gives a heading.
local function slug(text)
  return (text:lower():gsub("[^%w%s_-]", ""):gsub("%s", "-"))
end

local function resolve(page, target)
  if target:match("^%a[%w+.-]*:") then return target end
  local path, heading = target:match("^([^#]*)#?(.*)$")
  local there = path == "" and page or page_of(path)
  if not there or not pages[there] then return nil end
  return "#" .. there .. (heading == "" and "" or "-" .. heading)
end

-- Whether a name is a command or an option of the Emacs package.
local symbols = {}
local list = os.getenv("EDN_BRIDGE_SYMBOLS")
if list then
  for line in io.lines(list) do
    local kind, name = line:match("^(%a+) (%S+)$")
    if kind then symbols[name] = kind end
  end
end

-- The index entry for a text in code, or nil.
local function entry(text)
  local kind = symbols[text:gsub("^M%-x ", "")]
  if kind then return (kind == "command" and "@findex " or "@vindex ") .. text:gsub("^M%-x ", "") end
  if text:match("^[CMS]%-%S") or text:match("^<%a+>$") or text == "RET" or text == "TAB" then
    return "@kindex " .. text:gsub("[@{}]", "@%0")
  end
end

-- The index entries for what a block has in code, as a block that goes before it.
local function entries(block)
  local lines, seen = {}, {}
  pandoc.walk_block(pandoc.Div({ block }), {
    Code = function(code)
      local line = entry(code.text)
      if line and not seen[line] then
        seen[line] = true
        lines[#lines + 1] = line
      end
    end,
  })
  return #lines > 0 and pandoc.RawBlock("texinfo", table.concat(lines, "\n")) or nil
end

function Pandoc(document)
  local number, page, taken, titles = 0, nil, {}, {}
  for _, block in ipairs(document.blocks) do
    if block.t == "Header" and block.level == 1 then
      number = number + 1
      titles[page_of(files[number])] = block.content
    end
  end
  number = 0
  for index, block in ipairs(document.blocks) do
    if block.t == "Header" and block.level == 1 then
      number = number + 1
      page = page_of(files[number])
      block.identifier = page
    elseif block.t == "Header" then
      block.identifier = page .. "-" .. slug(pandoc.utils.stringify(block))
    end
    if block.t == "Header" then
      local name = slug(pandoc.utils.stringify(block))
      if taken[name] then block.content:insert(pandoc.Str(" (" .. page .. ")")) end
      taken[name] = true
    end
    document.blocks[index] = pandoc.walk_block(block, {
      Link = function(link)
        local target = resolve(page, link.target)
        if not target then return link.content end
        -- A reader of the manual knows no file names.
        local is_name = pandoc.utils.stringify(link.content) == link.target
        if is_name and titles[target:sub(2)] then link.content = titles[target:sub(2)] end
        link.target = target
        return link
      end,
      Image = function(image) return image.caption end,
    })
  end
  local blocks = {}
  page = nil
  number = 0
  for _, block in ipairs(document.blocks) do
    if block.t == "Header" and block.level == 1 then
      number = number + 1
      page = page_of(files[number])
    end
    -- An entry before a heading would be in the chapter above.
    local index = page == "emacs" and block.t ~= "Header" and entries(block)
    if index then blocks[#blocks + 1] = index end
    blocks[#blocks + 1] = block
  end
  for _, index in ipairs({ { "Commands", "fn" }, { "Options", "vr" }, { "Keys", "ky" } }) do
    blocks[#blocks + 1] = pandoc.Header(1, "Index of " .. index[1]:lower(), pandoc.Attr("index-" .. index[2]))
    blocks[#blocks + 1] = pandoc.RawBlock("texinfo", "@printindex " .. index[2])
  end
  document.blocks = blocks
  return document
end
