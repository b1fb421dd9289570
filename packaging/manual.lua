-- Makes one manual of the pages of docs/: each page is a chapter. Links between pages become cross-references; what
-- leads to a file of the repository keeps only its text. Headings are unique in the manual, since they name its nodes.

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
  return document
end
