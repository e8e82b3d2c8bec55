local _, held = mutex('')
local found = tenants()
if other_layout then return {'layout', other_layout} end
local shown = {digits(now)}
if held then
  table.insert(shown, table.concat({'x', redis.call('PTTL', KEYS[1]), held}, ':'))
end
for id, it in pairs(found) do
  local left = digits(tonumber(it.ends) - now)
  table.insert(shown, table.concat({it.mode, left, id, it.number, it.since, it.text}, ':'))
end
return shown
