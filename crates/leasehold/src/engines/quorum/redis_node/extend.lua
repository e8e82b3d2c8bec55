-- id, mode, ttl: what is there lives on, and never shorter than it would have;
-- what is gone stays gone. Answers with the milliseconds left, or less than none.
local id, mode, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
if mode == 'x' then
  if not mutex(id) then return -1 end
  if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ttl) end
  return redis.call('PTTL', KEYS[1])
end
local found = tenants()
local mine = found[id]
if not mine then return -1 end
-- A writer may have become a reader. A reader never becomes a writer: who believes
-- to be one is told that this is over.
if mode == 'w' and mine.mode == 'r' then return -1 end
if mode == 'r' then mine.mode = 'r' end
mine.ends = digits(math.max(tonumber(mine.ends), now + ttl))
settle(found, id, mine)
return tonumber(mine.ends) - now
