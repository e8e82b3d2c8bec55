local shown = {digits(now)}
local held = redis.call('GET', KEYS[1])
if held then
  table.insert(shown, table.concat({'x', redis.call('PTTL', KEYS[1]), held}, ':'))
end
for id, it in pairs(tenants()) do
  local left = digits(tonumber(it.ends) - now)
  table.insert(shown, table.concat({it.mode, left, id, it.number, it.since, it.text}, ':'))
end
return shown
