-- One client of super-smack 1.3, which is a process: rounds of two queries by primary key in the
-- text protocol, keys drawn from a dictionary; a fixed number of them, or until counts.lua's begin
-- ends it. It waits until its standard input ends, so that all clients begin together.
local counts = dofile(os.getenv("KNEEPOINT_COUNTER"))
local client = os.getenv("KNEEPOINT_CLIENT")
local updates = os.getenv("KNEEPOINT_UPDATES") == "1"
local words, asked, begun = {}, 0, nil
local begin, ended

local function now()
   local instant = counts.now()
   return string.format("%d.%09d", math.floor(instant / 1e9), instant % 1e9)
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
   begin, ended = counts.of(tonumber(client))
   con = sysbench.sql.driver():connect()
   local thread, host = con:query_row("SELECT TID, HOST FROM information_schema.PROCESSLIST " ..
                                         "WHERE ID = CONNECTION_ID()")
   tell("is served by thread %s from %s", thread, host)
   io.stdin:read(1)
end

function event()
   local query_begun = begin()
   -- Ends the client; sysbench does not count this as an event.
   if not query_begun then return true end
   begun = begun or now()
   if updates and asked % 2 == 1 then
      con:query("update http_auth set pass='" .. draw() .. "' where username = '" .. draw() ..
                   "'")
   else
      con:query("select * from http_auth where username = '" .. draw() .. "'"):free()
   end
   ended(query_begun)
   asked = asked + 1
end

function thread_done()
   tell("ended %d from %s to %s", asked, begun or now(), now())
   con:disconnect()
end
