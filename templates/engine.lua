-- engine.lua - the template engine: CUDA text with three marks in, plain CUDA text out.
--
--   //@ lua       a control line: Lua, a statement or a part of one
--   $(expr)       a value: a string without line breaks, an integer or a boolean
--   //-- note     a note for authors; dropped, also at the end of a line
--
-- Every template line becomes one line of a Lua chunk named @templates/<path>, so what Lua reports
-- is at the template's own line. The text keeps at most one blank line in a row, and no blanks at
-- the end of a line. #line is written only where the text drifts from its template.
--
-- A template sees, and any other name is an error: the kernel's values that gen/emit.c lists,
-- include(path), which expands another template at that place, and the part of Lua that sandbox.lua
-- lets through. All of it is read-only; a template writes only its `local`s.
--
-- An outline has the kernel's own template and head.cuh; parts, which lie in folders, stay the lines
-- that include them. Such a text, edited or not, is a template: expanded it gives the whole.
--
-- Input: host, made by gen/template.c: source(path), environment, root and the place that messages give
-- for it when it is no template, lines, outline, depth, rep_bytes.
-- Output: the text. What it leaves to the host: limits of memory and steps, printing of errors.
local host = ...
local string, table, math = string, table, math

-- Raises an error at the template line that runs; gen/template.c finds and prints the place.
local function fail(text, ...) error(string.format(text, ...), 0) end
local function fail_at(path, line, text) error({path = path, line = line, text = text}, 0) end

---- output: lines, with #line on drift ------------------------------------------------------

local out, at_path, at_line = {}, nil, 0
local blank = nil -- a blank line that waits for a line after it

local function write(path, n, line)
  if host.lines and (path ~= at_path or n ~= at_line + 1) then
    local place = path == host.root and host.place or "templates/" .. path
    out[#out + 1] = string.format('#line %d "/attune/%s"', n, (string.gsub(place, '[\\"]', "\\%0")))
  end
  out[#out + 1] = line
  at_path, at_line = path, n
end

local function value_text(x, where)
  local kind = math.type(x) or type(x)
  if kind == "string" and string.find(x, "[\r\n]") then fail("%s has a line break", where) end
  if kind == "string" or kind == "integer" or kind == "boolean" then return tostring(x) end
  local hint = kind == "float" and "; // divides integers, string.format prints floats" or ""
  fail("%s is a %s; it must be a string, an integer or a boolean%s", where, kind, hint)
end

local function write_blank()
  if blank then write(blank[1], blank[2], "") end
  blank = nil
end

-- The function that a chunk calls for each text line: n, literal, value, literal, value, ...
local function writer(path, exprs)
  return function(n, ...)
    local parts = {...}
    for i = 2, select("#", ...), 2 do parts[i] = value_text(parts[i], "$" .. exprs[n][i // 2]) end
    local line = string.gsub(table.concat(parts), "%s+$", "")
    if string.find(line, "^%s*#%s*include") then
      fail("#include: the text must be self-contained")
    end
    if line == "" then
      blank = #out > 0 and {path, n} or nil
      return
    end
    write_blank()
    write(path, n, line)
  end
end

-- What an outline has in place of a part.
local function put_include(path)
  write_blank()
  out[#out + 1] = string.format("//@ include(%q)", path)
  at_path = nil
end

---- translation: one template line, one Lua line --------------------------------------------

local function control(line) return string.match(line, "^%s*//@(.*)$") end

-- Checks on its own that Lua can read `expr`, so that a slip can't reach the rest of the line.
local function check_expr(path, n, expr)
  local ok, message = load("return " .. expr, "=value", "t")
  if ok then return end
  fail_at(path, n, "$" .. expr .. ": " .. string.gsub(message, "^.-:%d+: ", ""))
end

local function text_line(path, n, line, exprs)
  line = string.gsub(line, "%s*//%-%-.*$", "")
  if string.find(line, "//@", 1, true) then fail_at(path, n, "//@ must begin its line") end
  local code, at = {}, 1
  for from in string.gmatch(line, "()%$%(") do
    if from >= at then
      local expr = string.match(line, "^%b()", from + 1)
      if not expr then fail_at(path, n, "$( is not closed on its line") end
      check_expr(path, n, expr)
      code[#code + 1] = string.format("%q, %s", string.sub(line, at, from - 1), expr)
      exprs[#exprs + 1] = expr
      at = from + 1 + #expr
    end
  end
  code[#code + 1] = string.format("%q", string.sub(line, at))
  return string.format(";put__(%d, %s)", n, table.concat(code, ", "))
end

local function control_line(path, n, code)
  local open, at, level = string.find(code, "%[(=*)%[")
  if open and not string.find(code, "]" .. level .. "]", at, true) then
    fail_at(path, n, "a long bracket must close on its line")
  end
  return code
end

-- Lua's message -> template's line. What a control line left unfinished Lua sees only at the next
-- text line, whose code begins with a semicolon so that it can't be taken for the rest of it.
local function syntax_error(path, lines, message)
  local n, text = string.match(message, "^.-:(%d+): (.*)$")
  n = math.tointeger(tonumber(n))
  local before, cut = string.gsub(text, " near ';'$", "")
  if cut > 0 and not control(lines[n]) then
    text = before
    while n > 1 and not control(lines[n]) do n = n - 1 end
  end
  fail_at(path, n, (string.gsub(text, "near <eof>$", "at the end of the file")))
end

local function compile(path, text, environment)
  local lines, code, exprs = {}, {}, {}
  if string.sub(text, -1) ~= "\n" then text = text .. "\n" end
  for line in string.gmatch(text, "(.-)\r?\n") do
    local n = #lines + 1
    lines[n], exprs[n] = line, {}
    if control(line) then
      code[n] = control_line(path, n, control(line))
    elseif string.find(line, "^%s*//%-%-") then
      code[n] = ""
    else
      code[n] = text_line(path, n, line, exprs[n])
    end
  end
  code[1] = "local put__ = ...; " .. code[1]
  local chunk, message = load(table.concat(code, "\n"), "@templates/" .. path, "t", environment)
  if not chunk then syntax_error(path, lines, message) end
  return chunk, writer(path, exprs)
end

---- include ---------------------------------------------------------------------------------

local sandbox = assert(load(assert(host.source("sandbox.lua")), "@templates/sandbox.lua", "t"))
local view, scope = sandbox(host.rep_bytes)
local stack = {}
local function include(path)
  if type(path) ~= "string" then fail("include(path) wants a string, not a %s", type(path)) end
  local text, why = host.source(path)
  if not text then fail("%s", why) end
  if host.outline and #stack > 0 and string.find(path, "/", 1, true) then return put_include(path) end
  for i, open in ipairs(stack) do
    if open == path then fail("include cycle: %s -> %s", table.concat(stack, " -> ", i), path) end
  end
  if #stack >= host.depth then fail("includes are nested deeper than %d", host.depth) end
  local chunk, put = compile(path, text, scope)
  stack[#stack + 1] = path
  chunk(put)
  stack[#stack] = nil
end

scope.include = include
for name, value in next, host.environment do scope[name] = value end
scope = view("", scope)
include(host.root)
return table.concat(out, "\n") .. "\n"
