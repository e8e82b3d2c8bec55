-- One call serves many verbs of one client. KEYS are the counter and the index
-- of the shard, then two for each verb: a summary (a string, with the sole
-- holder in it) and the details (a hash of readers, permits and the queue;
-- mostly absent). A claim that loads a record has its key as well; a release
-- that stores one its key and, if it is listed, the index of records and what
-- lapses.
-- ARGV are how to publish, how long the prefix of a summary key is, where
-- changes of records are published, and one text for each verb.

local call, sub, byte = redis.call, string.sub, string.byte
local bytes, numbers = struct.pack, struct.unpack
local INDEX, FROM, LINGER = KEYS[2], ARGV[2] + 1, 60000
local answers, listed, longest, rest, next_key = {}, {}, 0, nil, 3

-- What concerns all names of the shard, once for the whole call.
local function keep_index()
  local new, old, added, cut = {}, {}, 0, 0
  for text, is_there in pairs(listed) do
    if is_there then
      new[added + 1], new[added + 2], added = '0', text, added + 2
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
-- bytes, and are served here: what they look at is read in one go, and what
-- they need is neither unpacked nor counted twice.
--
--   claim    'A' ttl delay id  and the rest, packed
--   name     'P' expires fence since ttl delay id  and the rest, packed
--   renewal  'R' ttl id        release  'U' id
--
-- 'L' is a claim that also loads a record, 'F' one that wants nothing else if the
-- record is there, and 'S' ttl id, with a packed value, a release that also stores
-- an unlisted record.
--
-- Numbers have 8 bytes, ids 16. The answer is a fence, or 0 for released. All
-- other verbs are a byte that says how many keys they have, and a packed array.
local A, F, L, P, R, S, U = 65, 70, 76, 80, 82, 83, 85
local KEYS_OF = { [A] = 2, [F] = 3, [L] = 3, [R] = 2, [S] = 3, [U] = 2 }

local known, gone, wanted = {}, {}, {}
for at = 4, #ARGV do
  local kind = byte(ARGV[at])
  if kind >= A then wanted[#wanted + 1] = KEYS[next_key] end
  if kind == F or kind == L then wanted[#wanted + 1] = KEYS[next_key + 2] end
  next_key = next_key + (KEYS_OF[kind] or kind)
end
if #wanted > 0 then
  local found = call('MGET', unpack(wanted))
  for at = 1, #wanted do known[wanted[at]] = found[at] end
end
next_key = 3

-- What a claim comes to, for all that ask for the same time.
local terms = {}
local function term_of(verb)
  local asked = sub(verb, 2, 17)
  local term = terms[asked]
  if not term then
    local ttl, delay = numbers('>I8I8', asked)
    local left = ttl + delay + max(2 * ttl, LINGER)
    longest = max(longest, left)
    local expires, since = bytes('>I8', now + ttl), bytes('>I8', now) .. asked
    term = { ttl = ttl, left = text(left), expires = expires, since = since }
    terms[asked] = term
  end
  return term
end

-- As text, which a number would become anew in each call.
local spans = {}
local function span_of(verb)
  local asked = sub(verb, 2, 9)
  spans[asked] = spans[asked] or text((numbers('>I8', asked)))
  return spans[asked]
end

local function is_held(name, id)
  return name and byte(name) == P and sub(name, 42, 57) == id and numbers('>I8', name, 2) > now
end

local function free(key)
  known[key], gone[key], listed[sub(key, FROM)] = false, true, false
end

for at = 4, #ARGV do
  local verb, summary, answer = ARGV[at], KEYS[next_key], nil
  local kind, name = byte(verb), known[summary]
  if kind == A or kind == F or kind == L then
    local record = kind ~= A and known[KEYS[next_key + 2]]
    if not name and record and kind == F then
      answer = '\146\010\219' .. bytes('>I4', #record) .. record
    elseif not name then
      local term, fence = term_of(verb), draw()
      name = 'P' .. term.expires .. bytes('>I8', fence) .. term.since .. sub(verb, 18)
      -- What is not ours, and no text, was not seen; it is not overwritten.
      if call('SET', summary, name, gone[summary] and 'XX' or 'NX', 'PX', term.left) then
        known[summary], gone[summary], listed[sub(summary, FROM)] = name, nil, true
        answer = record and pack({ 1, fence, term.ttl, 0, record }) or fence
      end
    end
  elseif kind == S then
    if is_held(name, sub(verb, 10, 25)) then
      file(KEYS[next_key + 2], sub(verb, 26), span_of(verb))
      free(summary)
      answer = 0
    end
  elseif kind == U then
    if is_held(name, sub(verb, 2)) then
      free(summary)
      answer = 0
    end
  elseif kind == R and is_held(name, sub(verb, 10)) then
    local expires, fence, since, ttl, delay = numbers('>I8I8I8I8I8', name, 2)
    local more = numbers('>I8', verb, 2)
    expires, ttl = max(expires, now + more), max(ttl, more)
    local left = expires - now + delay + max(2 * ttl, LINGER)
    name = 'P' .. bytes('>I8I8I8I8', expires, fence, since, ttl) .. sub(name, 34)
    call('SET', summary, name, 'PX', left)
    known[summary], listed[sub(summary, FROM)] = name, true
    longest = max(longest, left)
    answer = pack({ 4, expires - now })
  end
  if answer then
    answers[at - 3] = answer
  else
    -- Which verb it is, and where its keys begin.
    rest = rest or {}
    rest[#rest + 1], rest[#rest + 2] = at, next_key
  end
  next_key = next_key + (KEYS_OF[kind] or kind)
end

local ended = {}
for key in pairs(gone) do ended[#ended + 1] = key end
if #ended > 0 then call('DEL', unpack(ended)) end

if not rest then
  keep_count()
  keep_index()
  return answers
end

