-- One call serves many verbs of one client. KEYS are the counter and the index
-- of the shard, then two for each verb: a summary (a string, with the sole
-- holder in it) and the details (a hash of readers, permits and the queue;
-- mostly absent). A claim that loads a record has its key as well; a release
-- that stores one its key and, if it is listed, the index of records and what
-- lapses.
-- ARGV are how to publish, how long the prefix of a summary key is, where
-- changes of records are published, and one text for each verb.
--
-- Most verbs are a claim on a name that nobody has, and the renewal and the
-- release of one for whom nobody waits. They come and are stored as plain
-- bytes, and are served here: what they look at is read in one go, and what
-- they need is neither unpacked nor counted twice. A call of one such verb is
-- over sooner than the functions of the rest could be made. What the server
-- refuses here goes the long way, where it can be said why.
--
--   claim    'A' ttl delay id  and the rest, packed
--   name     'P' expires fence since ttl delay id  and the rest, packed
--   renewal  'R' id ttl        release  'U' id
--
-- 'L' is a claim that also loads a record, and 'F' one that wants nothing else if
-- the record is there; a name that it took is a 'Q', and in no index before it is
-- renewed. 'S' id ttl, with a packed value, is a release that also stores an
-- unlisted record.
--
-- Numbers have 8 bytes, ids 16. The answer is a fence, or 0 for released. All
-- other verbs are a byte that says how many keys they have, and a packed array.

local KEYS, ARGV = KEYS, ARGV
local call, try, sub, byte, max = redis.call, redis.pcall, string.sub, string.byte, math.max
local bytes, numbers = struct.pack, struct.unpack
local A, F, L, P, Q, R, S, U = 65, 70, 76, 80, 81, 82, 83, 85
local LINGER = 60000

-- What they look at, in their order.
local wanted, at_hand, next_key = { KEYS[1] }, 1, 3
for at = 4, #ARGV do
  local kind = byte(ARGV[at])
  if kind < A then
    next_key = next_key + kind
  else
    at_hand = at_hand + 1
    wanted[at_hand] = KEYS[next_key]
    if kind == F or kind == L or kind == S then
      at_hand = at_hand + 1
      wanted[at_hand] = KEYS[next_key + 2]
      next_key = next_key + 3
    else
      next_key = next_key + 2
    end
  end
end
local found = call('MGET', unpack(wanted))

-- The last fence or version, as in count.lua.
local before = tonumber(found[1]) or 0
local count = max(before, micros - 1)

-- What verbs of this call have changed; and what is done for all of them in one
-- go: which names end, and which come into the index or leave it.
local known, ended, entered, left = {}, {}, {}, {}
local FROM, longest = ARGV[2] + 1, 0

-- The number comes first: what was granted keeps it, whatever fails after. Where
-- even that is refused (no memory) nothing was granted, but names may end.
local function settle()
  if count > before and count >= micros then
    try('SET', KEYS[1], string.format('%.0f', count))
    before = count
  end
  if #ended > 0 then call('DEL', unpack(ended)) end
  if #left > 0 then call('ZREM', KEYS[2], unpack(left)) end
  if #entered > 0 then
    call('ZADD', KEYS[2], unpack(entered))
    if call('PTTL', KEYS[2]) < longest - 1000 then call('PEXPIRE', KEYS[2], longest) end
  end
  ended, entered, left = {}, {}, {}
end

local answers, rest = {}, nil
-- Most verbs of a call ask for the same time: what it comes to.
local asked, ttl, expires, since, lasts, span, spans
at_hand, next_key = 1, 3
for at = 4, #ARGV do
  local verb, summary, keys, answer = ARGV[at], KEYS[next_key], 2, nil
  local kind = byte(verb)
  if kind < A then
    keys = kind
  else
    at_hand = at_hand + 1
    local name, record = found[at_hand], false
    if known[summary] ~= nil then
      settle()
      name = known[summary]
    end
    if kind == F or kind == L or kind == S then
      at_hand = at_hand + 1
      record, keys = known[KEYS[next_key + 2]] or found[at_hand], 3
    end
    if kind == A or kind == F or kind == L then
      if not name and record and kind == F then
        answer = '\146\010\219' .. bytes('>I4', #record) .. record
      elseif not name then
        if asked ~= sub(verb, 2, 17) then
          asked = sub(verb, 2, 17)
          local delay
          ttl, delay = numbers('>I8I8', asked)
          local most = ttl + delay + max(2 * ttl, LINGER)
          longest = max(longest, most)
          lasts = string.format('%.0f', most)
          expires, since = bytes('>I8', now + ttl), bytes('>I8', now) .. asked
        end
        count = count + 1
        name = (kind == F and 'Q' or 'P') .. expires .. bytes('>I8', count) .. since .. sub(verb, 18)
        -- What is not ours, and no text, was not seen; it is not overwritten.
        local said = try('SET', summary, name, 'NX', 'PX', lasts)
        if said and said.ok then
          known[summary] = name
          if kind ~= F then entered[#entered + 1], entered[#entered + 2] = '0', sub(summary, FROM) end
          answer = record and cmsgpack.pack({ 1, count, ttl, 0, record }) or count
        end
      end
    -- A record of another layout is not written over: the long way says why.
    elseif kind ~= S or not record or byte(record) ~= 193 then
      local form = name and byte(name)
      if (form == Q or form == P) and sub(name, 42, 57) == sub(verb, 2, 17)
        and numbers('>I8', name, 2) > now then
        if kind == R then
          local till, fence, from, term, delay = numbers('>I8I8I8I8I8', name, 2)
          local more = numbers('>I8', verb, 18)
          till, term = max(till, now + more), max(term, more)
          local most = till - now + delay + max(2 * term, LINGER)
          name = 'P' .. bytes('>I8I8I8I8', till, fence, from, term) .. sub(name, 34)
          if try('SET', summary, name, 'PX', most).ok then
            known[summary], longest = name, max(longest, most)
            entered[#entered + 1], entered[#entered + 2] = '0', sub(summary, FROM)
            answer = cmsgpack.pack({ 4, till - now })
          end
        else
          local stored = true
          if kind == S then
            -- As text, which a number would become anew for each.
            if span ~= sub(verb, 18, 25) then
              span = sub(verb, 18, 25)
              spans = string.format('%.0f', (numbers('>I8', span)))
            end
            count = count + 1
            local packed = '\148\207' .. bytes('>I8', count) .. sub(verb, 26) .. '\194\194'
            stored = try('SET', KEYS[next_key + 2], packed, 'PX', spans).ok
            if stored then known[KEYS[next_key + 2]] = packed end
          end
          if stored then
            known[summary], ended[#ended + 1], answer = false, summary, 0
            if form == P then left[#left + 1] = sub(summary, FROM) end
          end
        end
      end
    end
  end
  if answer then
    answers[at - 3] = answer
  else
    -- Which verb it is, and where its keys begin.
    rest = rest or {}
    rest[#rest + 1], rest[#rest + 2] = at, next_key
  end
  next_key = next_key + keys
end
settle()

if not rest then return answers end

