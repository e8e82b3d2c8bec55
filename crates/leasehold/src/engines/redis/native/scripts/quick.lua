-- One call serves many verbs of one client. KEYS are the counter and the index
-- of the shard, then two for each verb: a summary (a string, with the sole
-- holder in it) and the details (a hash of readers, permits and the queue;
-- mostly absent). A claim that loads a record has its key as well, a release
-- that stores one its key, the index of records and what lapses.
-- ARGV are how to publish, how long the prefix of a summary key is, where
-- changes of records are published, and one text for each verb.

local call, sub, byte = redis.call, string.sub, string.byte
local bytes, numbers = struct.pack, struct.unpack
local INDEX, FROM, LINGER = KEYS[2], ARGV[2] + 1, 60000
local answers, listed, longest, rest, next_key = {}, {}, 0, nil, 3
local filed, lapsing, record_keys = {}, {}, nil

-- What concerns all names of the shard, once for the whole call.
local function keep_index()
  local new, old, added, cut = {}, {}, 0, 0
  for text, is_there in pairs(listed) do
    if is_there then
      new[added + 1], new[added + 2], added = 0, text, added + 2
    else
      old[cut + 1], cut = text, cut + 1
    end
  end
  if added > 0 then
    call('ZADD', INDEX, unpack(new))
    if call('PTTL', INDEX) < longest - 1000 then call('PEXPIRE', INDEX, longest) end
  end
  if cut > 0 then call('ZREM', INDEX, unpack(old)) end
end

-- Most verbs are a claim on a name that nobody has, and the renewal and the
-- release of one for whom nobody waits. They come and are stored as plain
-- bytes, and are served here without tables or functions of their own, which
-- takes half the time:
--
--   claim    'A'                             ttl delay id  and the rest, packed
--   name     'P' expires fence since         ttl delay id  and the rest, packed
--   renewal  'R' ttl id        release  'U' id
--
-- 'L' is a claim that also loads a record, 'F' one that wants nothing else if the
-- record is there, and 'S' ttl id, with name and value packed, a release that also
-- stores one.
--
-- Numbers have 8 bytes, ids 16. The answer is a fence, or 0 for released. All
-- other verbs are a byte that says how many keys they have, and a packed array.
local MORE_KEYS = { [76] = 3, [70] = 3, [83] = 5 }

for at = 4, #ARGV do
  local verb, summary, answer = ARGV[at], KEYS[next_key], nil
  local kind = byte(verb)
  local keys = MORE_KEYS[kind] or 2
  local record = (kind == 76 or kind == 70) and call('GET', KEYS[next_key + 2])
  if record and kind == 70 then
    if not call('GET', summary) then answer = pack({ 10, record }) end
  elseif kind == 65 or kind == 76 or kind == 70 then
    local ttl, delay = numbers('>I8I8', verb, 2)
    local left = ttl + delay + (2 * ttl > LINGER and 2 * ttl or LINGER)
    local fence = draw()
    local name = 'P' .. bytes('>I8I8I8', now + ttl, fence, now) .. sub(verb, 2)
    if call('SET', summary, name, 'NX', 'PX', left) then
      answer, listed[sub(summary, FROM)] = fence, true
      if left > longest then longest = left end
      if record then answer = pack({ 1, fence, ttl, 0, record }) end
    else
      count = fence - 1
    end
  elseif kind == 83 then
    local name = call('GET', summary)
    local ours = name and byte(name) == 80 and sub(name, 42, 57) == sub(verb, 10, 25)
    if ours and numbers('>I8', name, 2) > now then
      local more, ttl = unpacked(sub(verb, 26)), (numbers('>I8', verb, 2))
      local own = { KEYS[next_key + 2], KEYS[next_key + 3], KEYS[next_key + 4] }
      if more[2] and ttl > 0 then
        put_value(own[1], ARGV[3], more[1], more[2], ttl)
        filed[#filed + 1], filed[#filed + 2] = 0, more[1]
        lapsing[#lapsing + 1], lapsing[#lapsing + 2] = now + ttl, more[1]
        record_keys = own
      else
        write(own, ARGV[3], more[1], more[2], ttl)
      end
      call('DEL', summary)
      answer, listed[sub(summary, FROM)] = 0, false
    end
  elseif kind == 85 or kind == 82 then
    local name = call('GET', summary)
    if name and byte(name) == 80 and sub(name, 42, 57) == sub(verb, -16) then
      local expires, fence, since, ttl, delay = numbers('>I8I8I8I8I8', name, 2)
      if expires > now and kind == 85 then
        call('DEL', summary)
        answer, listed[sub(summary, FROM)] = 0, false
      elseif expires > now then
        local more = numbers('>I8', verb, 2)
        expires, ttl = max(expires, now + more), max(ttl, more)
        local left = expires - now + delay + max(2 * ttl, LINGER)
        name = 'P' .. bytes('>I8I8I8I8', expires, fence, since, ttl) .. sub(name, 34)
        call('SET', summary, name, 'PX', left)
        answer, listed[sub(summary, FROM)] = pack({ 4, expires - now }), true
        if left > longest then longest = left end
      end
    end
  end
  if answer then
    answers[at - 3], next_key = answer, next_key + keys
  else
    -- Which verb it is, and where its keys begin.
    rest = rest or {}
    rest[#rest + 1], rest[#rest + 2] = at, next_key
    next_key = next_key + (kind < 65 and kind or keys)
  end
end

-- The indexes of records, once for the whole call.
if record_keys then
  call('ZADD', record_keys[2], unpack(filed))
  call('ZADD', record_keys[3], unpack(lapsing))
end

if not rest then
  keep_count()
  keep_index()
  return answers
end

