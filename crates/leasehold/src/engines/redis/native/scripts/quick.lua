-- One call serves many verbs of one client. KEYS are the counter and the index
-- of the shard, then two for each verb: a summary (a string, with the sole
-- holder in it, so that an uncontended lock is one GET and one SET) and the
-- details (a hash of readers, permits and the queue; mostly absent). A claim
-- that loads a record has its key as well, a release that stores one its key,
-- the index of records and what lapses.
-- ARGV are how to publish, how long the prefix of a summary key is, where
-- changes of records are published, and one packed array for each verb.

local INDEX, PREFIX, CHANGES = KEYS[2], tonumber(ARGV[2]), ARGV[3]
local answers, listed, longest, rest, next_key = {}, {}, 0, {}, 3

-- What concerns all names of the shard, once for the whole call.
local function keep_index()
  local new, old = {}, {}
  for text, is_there in pairs(listed) do
    if is_there then
      new[#new + 1] = 0
      new[#new + 1] = text
    else
      old[#old + 1] = text
    end
  end
  if #new > 0 then
    redis.call('ZADD', INDEX, unpack(new))
    if redis.call('PTTL', INDEX) < longest - 1000 then redis.call('PEXPIRE', INDEX, longest) end
  end
  if #old > 0 then redis.call('ZREM', INDEX, unpack(old)) end
end

-- Most verbs are a claim on a name that nobody has, or the release of a sole
-- holder for whom nobody waits. They are served here: to make the functions
-- that serve all others takes several times as long.
for at = 4, #ARGV do
  local verb, first = unpacked(ARGV[at]), next_key
  local kind, summary, answer = verb[1], KEYS[first], nil
  local loads, stores = kind == 'a' and verb[12] == 1, kind == 'u' and verb[5]
  next_key = first + 2 + (loads and 1 or 0) + (stores and 3 or 0)
  local packed = redis.call('GET', summary)
  if kind == 'a' and not packed and (verb[3] == EXCLUSIVE or verb[3] == WRITE) then
    local ttl, fence = verb[7], draw()
    local left = ttl + verb[8] + max(LINGER, 2 * ttl)
    local seat = { verb[2], verb[3], verb[4], verb[5], verb[6], ttl, verb[8], verb[9], verb[10], now,
      now + ttl, 0, fence, NONE, false, verb[11] == 2 }
    redis.call('SET', summary, pack({ seat, 0, 0, 0, false, 0, 0, 0, false, now + left }), 'PX', left)
    listed[string.sub(summary, PREFIX + 1)], longest = true, max(longest, left)
    answer = { GRANTED, fence, ttl, NONE, loads and redis.call('GET', KEYS[first + 2]) }
  elseif kind == 'u' and packed and not stores and verb[3] == 0 and verb[4] == 0 then
    local state = unpacked(packed)
    local sole = state[SOLE]
    if sole and sole[ID] == verb[2] and sole[EXPIRES] > now and not sole[BOUND]
      and state[HEAD] == state[TAIL] and state[CLOSED] <= now and not state[LAST] then
      redis.call('DEL', summary)
      listed[string.sub(summary, PREFIX + 1)] = false
      answer = { DONE }
    end
  end
  if answer then
    answers[at - 3] = pack(answer)
  else
    rest[#rest + 1] = { at - 3, first, verb }
  end
end

if #rest == 0 then
  keep_count()
  keep_index()
  return answers
end

