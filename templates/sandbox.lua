-- sandbox.lua - all that a template can name: the kernel's values and a Lua without accidents.
--
-- Strict: a name that isn't there is an error, never nil. Read-only: a template writes only locals.
-- Repeatable: nothing depends on addresses, clocks, hash order or chance.
--
-- Input: rep_bytes, the longest text that string.rep may make. Output: the function view(label,
-- table), which shows a table so, and the table of Lua's safe names. Limits of steps and memory are
-- left to gen/template.c.
local rep_bytes = ...

local function fail(text, ...) error(string.format(text, ...), 0) end

---- views -----------------------------------------------------------------------------------

local behind = setmetatable({}, {__mode = "k"}) -- view -> the table that it shows

local function sorted_keys(t)
  local keys = {}
  for key in next, t do
    local kind = type(key)
    if kind ~= "string" and kind ~= "number" then fail("a %s as key of pairs", kind) end
    keys[#keys + 1] = key
  end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return type(a) == "number" end
    return a < b
  end)
  return keys
end

local function missing(label, t, key)
  if math.type(key) == "integer" then return nil end -- the end of a list
  if label == "" then fail("undefined name '%s'", tostring(key)) end
  fail("%s has no '%s'; it has %s", label, tostring(key), table.concat(sorted_keys(t), ", "))
end

local function view(label, t)
  local shown = {}
  for key, value in next, t do
    local name = label == "" and key or label .. "." .. key
    shown[key] = type(value) == "table" and view(name, value) or value
  end
  local proxy = setmetatable({}, {
    __index = function(_, key)
      local value = shown[key]
      if value == nil then return missing(label, shown, key) end
      return value
    end,
    __newindex = function(_, key)
      fail("'%s' is read-only here; write `local %s = ...`", tostring(key), tostring(key))
    end,
    __len = function() return #shown end,
  })
  behind[proxy] = shown
  return proxy
end

local function sorted_pairs(t)
  local shown = behind[t] or t
  if type(shown) ~= "table" then fail("pairs of a %s", type(t)) end
  local keys, i = sorted_keys(shown), 0
  return function()
    i = i + 1
    return keys[i], shown[keys[i]]
  end
end

---- Lua -------------------------------------------------------------------------------------

local function plain(x) -- a table's text would be its address
  local kind = type(x)
  if kind == "table" or kind == "function" then fail("a %s has no text", kind) end
  return tostring(x)
end

-- Backtracking grows as length ^ quantifiers, inside C where no step is counted.
local function bounded(name)
  local call = string[name]
  return function(subject, pattern, ...)
    local _, quantifiers = string.gsub(pattern, "[*+?-]", "")
    if (#subject + 1.0) ^ (quantifiers + 1) > 1e8 then
      fail("string.%s: too many repetitions for a text of %d bytes", name, #subject)
    end
    return call(subject, pattern, ...)
  end
end

local safe_string = {
  byte = string.byte, char = string.char, len = string.len, lower = string.lower,
  reverse = string.reverse, sub = string.sub, upper = string.upper,
  find = bounded("find"), gmatch = bounded("gmatch"),
  gsub = bounded("gsub"), match = bounded("match"),
  format = function(text, ...)
    if string.find(text, "%%[-+ #0-9.]*p") then fail("string.format: %%p prints an address") end
    for i = 1, select("#", ...) do plain((select(i, ...))) end
    return string.format(text, ...)
  end,
  rep = function(text, count, separator)
    if (#text + #(separator or "")) * 1.0 * count > rep_bytes then
      fail("string.rep: over %d bytes", rep_bytes)
    end
    return string.rep(text, count, separator)
  end,
}
local safe_math = {}
for name, value in next, math do safe_math[name] = value end
safe_math.random, safe_math.randomseed = nil, nil

local safe = {
  ipairs = ipairs, pairs = sorted_pairs, select = select, tonumber = tonumber, tostring = plain,
  type = type, string = safe_string, math = safe_math,
  table = {concat = table.concat, insert = table.insert, pack = table.pack, remove = table.remove,
           unpack = table.unpack}, -- no sort: unstable, and its pivot comes from a clock
  error = function(text) error(plain(text), 0) end,
  assert = function(value, text)
    if not value then error(plain(text or "assertion failed"), 0) end
    return value
  end,
}

getmetatable("").__index = view("string", safe_string) -- ("x"):rep() is the safe one too
return view, safe
