-- Renewals in a call of their own: of names with a sole holder and nothing else,
-- which most are. All that one of them costs is one look and one write.
--
-- KEYS are the index of the shard and one summary for each renewal. ARGV are how
-- long the prefix of a summary key is, and for each renewal an id and a ttl, 16
-- and 8 bytes, all in one. The answer to each is for how long it is held from now
-- on; 0 if that is not known here, and the long way has to find out.
--
-- A name is stored as in quick.lua:
--
--   'P' or 'Q'  expires fence since ttl delay id  and the rest, packed

local KEYS = KEYS
local try, sub, byte, max = redis.pcall, string.sub, string.byte, math.max
local bytes, numbers = struct.pack, struct.unpack
local P, Q = 80, 81
local LINGER = 60000
local INDEX, FROM, asked = KEYS[1], ARGV[1] + 1, ARGV[2]

local answers, renewed, written, fresh, longest = {}, {}, {}, false, 0
-- Most ask for the same time and have the same terms: what it comes to.
local span, more, till, expires, terms, term, as_it_was, lasts

local function ask(span)
  more = numbers('>I8', span)
  till = now + more
  expires, terms = bytes('>I8', till), nil
end

-- How long the key lives: until the end of the lease is not worth telling.
local function settle(ttl, delay)
  term, as_it_was = max(ttl, more), ttl >= more
  local most = more + delay + max(2 * term, LINGER)
  lasts = string.format('%.0f', most)
  longest = max(longest, most)
end

for at, name in ipairs(redis.call('MGET', unpack(KEYS, 2))) do
  local from, answer = 24 * at - 23, 0
  local form = name and byte(name)
  if (form == P or form == Q) and sub(name, 42, 57) == sub(asked, from, from + 15) then
    local ends = numbers('>I8', name, 2)
    if ends > now then
      if span ~= sub(asked, from + 16, from + 23) then
        span = sub(asked, from + 16, from + 23)
        ask(span)
      end
      -- One that has more time than is asked for keeps it: the long way. So does
      -- one that was asked for before in this call, and is not as it was found.
      if ends <= till and not written[KEYS[at + 1]] then
        if terms ~= sub(name, 26, 41) then
          terms = sub(name, 26, 41)
          settle(numbers('>I8I8', terms))
        end
        local kept = as_it_was and sub(name, 10)
          or sub(name, 10, 25) .. bytes('>I8', term) .. sub(name, 34)
        if try('SET', KEYS[at + 1], 'P' .. expires .. kept, 'PX', lasts).ok then
          answer, fresh = more, fresh or form == Q
          renewed[#renewed + 1], written[KEYS[at + 1]] = KEYS[at + 1], true
        end
      end
    end
  end
  answers[at] = answer
end

-- All are in the index, unless it was lost; then one that is looked at is not.
if #renewed > 0 then
  local one = renewed[1 + micros % #renewed]
  if redis.call('ZADD', INDEX, '0', sub(one, FROM)) == 1 or fresh then
    local entered = {}
    for at, summary in ipairs(renewed) do
      entered[2 * at - 1], entered[2 * at] = '0', sub(summary, FROM)
    end
    redis.call('ZADD', INDEX, unpack(entered))
  end
  if redis.call('PTTL', INDEX) < longest - 1000 then redis.call('PEXPIRE', INDEX, longest) end
end
return answers
