-- The values of the first of KEYS: as many as have ARGV[1] bytes together, and one
-- at least. What is not there, and what is no value, is nothing.

local values, enough, bytes = {}, tonumber(ARGV[1]), 0
for at, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  values[at] = type(value) == 'string' and value
  bytes = bytes + #(values[at] or '')
  if bytes >= enough then break end
end
return values
