-- id, mode, ttl: what is there lives on, what is gone stays gone.
local id, mode, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
if mode == 'x' then
  if not mutex(id) then return 0 end
  return redis.call('PEXPIRE', KEYS[1], ttl)
end
local found = tenants()
local mine = found[id]
if not mine then return 0 end
-- A writer may have become a reader; a reader never becomes a writer.
if mode == 'r' then mine.mode = 'r' end
mine.ends = digits(now + ttl)
settle(found, id, mine)
return 1
