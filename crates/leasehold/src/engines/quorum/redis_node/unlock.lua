-- id: removes what this lease has, or an earlier round of its ticket, and nothing
-- else.
local _, held, owner = mutex(ARGV[1])
if held and past(owner, ARGV[1]) then return redis.call('DEL', KEYS[1]) end
if redis.call('TYPE', KEYS[2]).ok == 'none' then return 0 end
local live = 0
for id in pairs(tenants()) do
  if past(id, ARGV[1]) then live = redis.call('HDEL', KEYS[2], id) end
end
return live
