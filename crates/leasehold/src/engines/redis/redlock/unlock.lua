-- id: removes what this lease has, and nothing else.
if mutex(ARGV[1]) then return redis.call('DEL', KEYS[1]) end
if redis.call('TYPE', KEYS[2]).ok == 'none' then return 0 end
local live = tenants()[ARGV[1]]
redis.call('HDEL', KEYS[2], ARGV[1])
return live and 1 or 0
