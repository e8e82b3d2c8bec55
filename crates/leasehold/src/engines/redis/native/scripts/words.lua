-- The words of the scripts: what the numbers mean.

-- Modes, and how a lease ended.
local EXCLUSIVE, READ, WRITE, PERMITS = 1, 2, 3, 4
local NONE, RELEASED, EXPIRED, EVICTED = 0, 1, 2, 3

-- A seat: a claim that holds or waits. SEQ is its number in the queue, FENCE
-- and PRED are known once it holds, BOUND are records that go with it. Who
-- ASKS again by itself is not told of its grant.
local ID, MODE, TAKE, OF, LABEL, TTL, DELAY, META, CHANNEL, SINCE, EXPIRES, SEQ, FENCE, PRED, BOUND, ASKS =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16

-- A summary. COUNT, USED (permits), SOONEST (no holder expires before) and
-- ELDEST are of the holders in the details; the queue has the numbers from
-- HEAD up to TAIL; KEEP is until when any of it matters.
local SOLE, COUNT, USED, SOONEST, ELDEST, HEAD, TAIL, CLOSED, LAST, KEEP =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10

-- Answers.
local GRANTED, BUSY, OTHER_KIND, HELD, QUEUED, GONE, DONE, TAKEN, SHOWN, FOUND =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10

