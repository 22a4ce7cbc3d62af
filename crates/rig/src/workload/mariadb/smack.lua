-- One client of super-smack 1.3, which is a process: rounds of two queries by primary key in the
-- text protocol, keys drawn from a dictionary, a fixed number of them. It waits until its standard
-- input ends, so that all clients begin together.
local ffi = require("ffi")
ffi.cdef [[
typedef struct { long seconds; long nanoseconds; } kneepoint_instant;
int clock_gettime(int clock, kneepoint_instant *now);
]]

local MONOTONIC = 1
local client = os.getenv("KNEEPOINT_CLIENT")
local updates = os.getenv("KNEEPOINT_UPDATES") == "1"
local words, asked, begun = {}, 0, nil

local function now()
   local instant = ffi.new("kneepoint_instant")
   ffi.C.clock_gettime(MONOTONIC, instant)
   return string.format("%d.%09d", tonumber(instant.seconds), tonumber(instant.nanoseconds))
end

local function tell(...)
   io.stderr:write("kneepoint: client " .. client .. " " .. string.format(...) .. "\n")
end

local function draw()
   return words[sysbench.rand.uniform(1, #words)]
end

function thread_init()
   for word in io.lines(os.getenv("KNEEPOINT_WORDS")) do
      words[#words + 1] = word
   end
   con = sysbench.sql.driver():connect()
   local thread, host = con:query_row("SELECT TID, HOST FROM information_schema.PROCESSLIST " ..
                                         "WHERE ID = CONNECTION_ID()")
   tell("is served by thread %s from %s", thread, host)
   io.stdin:read(1)
end

function event()
   begun = begun or now()
   if updates and asked % 2 == 1 then
      con:query("update http_auth set pass='" .. draw() .. "' where username = '" .. draw() ..
                   "'")
   else
      con:query("select * from http_auth where username = '" .. draw() .. "'"):free()
   end
   asked = asked + 1
end

function thread_done()
   tell("ended %d from %s to %s", asked, begun or now(), now())
   con:disconnect()
end
