-- Records: versioned values under names. They are read without a script.
--
-- KEYS are the counter, the index of records and what ends by itself, then one
-- for each verb. ARGV are how and where to publish, and one packed array for
-- each verb. A record may go with a lease, which may be in another shard: then
-- the client is asked to look at the lease first.

local INDEX, LAPSES, CHANGES = KEYS[2], KEYS[3], ARGV[2]

local VERSION, VALUE, LEASE, ID = 1, 2, 3, 4

-- Answers.
local STORED, CONFLICT, LOOK, SUM, NO_NUMBER, TOO_LARGE = 1, 2, 3, 4, 5, 6

-- A sum of numbers with no more digits, and a sign, is exact.
local EXACT = 15

local key

local function load()
  local packed = redis.call('GET', key)
  return packed and opened(packed)
end

local function found(record, kind)
  if not record then return { kind } end
  return { kind, record[VERSION], record[VALUE], record[LEASE], record[ID] }
end

-- What is there, unless it goes with a lease that nobody has looked at.
local function settled(record, looked)
  return not record or not record[LEASE] or record[VERSION] == looked
end

-- Changes a value and nothing else of it.
local function replace(record, name, value)
  record[VERSION], record[VALUE] = draw(), value
  redis.call('SET', key, pack(record), 'KEEPTTL')
  redis.call(PUBLISH, CHANGES, pack({ name, record[VERSION], value }))
end

local verbs = {}

-- { 's', name, expected (0 anything, 1 nothing, 2 this version), version, looked,
--   value (or false), ttl (or 0), lease (or false), id (or false), left, unlisted }
verbs['s'] = function(verb)
  local expected, record = verb[3], verb[3] ~= 0 and load()
  if expected == 0 then spare(key) end
  if expected ~= 0 and not settled(record, verb[5]) then return found(record, LOOK) end
  local holds = expected == 0 or (expected == 1 and not record)
    or (expected == 2 and record and record[VERSION] == verb[4])
  if not holds then return found(record, CONFLICT) end
  if verb[11] then return { STORED, file(key, pack(verb[6]), text(verb[7])) } end
  local keys = { key, INDEX, LAPSES }
  return { STORED, write(keys, CHANGES, verb[2], verb[6], verb[7], verb[8], verb[9], verb[10]) }
end

-- { 'a', name, amount (as text), looked }
verbs['a'] = function(verb)
  local record = load()
  if not settled(record, verb[4]) then return found(record, LOOK) end
  if not record then
    write({ key, INDEX, LAPSES }, CHANGES, verb[2], verb[3], 0)
    return { SUM, verb[3] }
  end
  local value = record[VALUE]
  if not string.find(value, '^%-?%d+$') then return { NO_NUMBER } end
  if #value > EXACT or #verb[3] > EXACT then return found(record, TOO_LARGE) end
  local sum = text(tonumber(value) + tonumber(verb[3]))
  replace(record, verb[2], sum)
  return { SUM, sum }
end

-- { 'p', name, version, sum }: added by the client, if nobody was faster.
verbs['p'] = function(verb)
  local record = load()
  if not record or record[VERSION] ~= verb[3] then return found(record, CONFLICT) end
  replace(record, verb[2], verb[4])
  return { SUM, verb[4] }
end

-- { 'd', name, version }: its lease has ended; or it has ended by itself, and
-- nobody has been told.
verbs['d'] = function(verb)
  local record = load()
  if record and record[VERSION] ~= verb[3] then return found(record, CONFLICT) end
  if not record and redis.call('ZREM', LAPSES, verb[2]) == 1 then
    tell_end(CHANGES, verb[2], draw())
  end
  return { STORED, write({ key, INDEX, LAPSES }, CHANGES, verb[2], false) }
end

-- { 'w', name, left }: its lease lives on.
verbs['w'] = function(verb)
  redis.call('ZADD', LAPSES, 'XX', now + verb[3], verb[2])
  return { STORED, 0 }
end

local function serve(text)
  local verb = unpacked(text)
  return pack(verbs[verb[1]](verb))
end

local answers = {}
for at = 3, #ARGV do
  key = KEYS[at + 1]
  local answer, refused = outcome(pcall(serve, ARGV[at]))
  if refused then return { err = refused } end
  answers[at - 2] = answer
end
if count > before and count >= micros then redis.pcall('SET', KEYS[1], text(count)) end
return answers
