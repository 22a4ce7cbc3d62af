-- Counts of each client in a file that Kneepoint reads while they grow, at the price of a few
-- nanoseconds for each operation. A client has 1024 numbers: operations ended, whether it is to
-- stop, the sum of its response times in nanoseconds, operations begun, whether it waits at its
-- gate, three unused, then operations by response time, 32 bins for each doubling from a
-- microsecond on. A client that is to stop ends, or where it has a gate, a named pipe, waits there
-- until one byte lets it go on.
local ffi = require("ffi")
ffi.cdef [[
typedef struct { long seconds; long nanoseconds; } kneepoint_time;
int clock_gettime(int clock, kneepoint_time *now);
int open(const char *path, int flags, ...);
void *mmap(void *address, size_t length, int protection, int flags, int file, long offset);
long read(int file, void *buffer, size_t length);
]]

local READ_WRITE, SHARED, MONOTONIC = 2, 1, 1
local NUMBERS, BINS, FIRST = 1024, 1016, 8
local PER_DOUBLING = 32 / math.log(2)

local function open(path)
   local file = ffi.C.open(path, READ_WRITE)
   if file < 0 then error("kneepoint: " .. path .. " cannot be opened") end
   return file
end

local function map(path, length)
   local file = open(path)
   local memory = ffi.C.mmap(nil, length, 3, SHARED, file, 0)
   if memory == ffi.cast("void *", -1) then error("kneepoint: " .. path .. " cannot be mapped") end
   return ffi.cast("double *", memory)
end

local time = ffi.new("kneepoint_time")

-- Nanoseconds since boot.
local function now()
   ffi.C.clock_gettime(MONOTONIC, time)
   return tonumber(time.seconds) * 1e9 + tonumber(time.nanoseconds)
end

-- Two functions of a client: one to call before an operation, which returns nothing where the
-- client is to end instead, and one to call after it with what the first has returned.
local function of(client)
   local own = map(os.getenv("KNEEPOINT_COUNTS"), 8 * NUMBERS * (client + 1)) + NUMBERS * client
   local gates, byte = os.getenv("KNEEPOINT_GATES"), ffi.new("char[1]")
   local gate = gates and open(gates .. client)
   local function begin()
      while own[1] ~= 0 do
         if not gate then return end
         own[4] = 1
         ffi.C.read(gate, byte, 1)
         own[4] = 0
      end
      own[3] = own[3] + 1
      return now()
   end
   local function ended(begun)
      local length = now() - begun
      local bin = math.floor(math.log(length / 1000) * PER_DOUBLING)
      if not (bin > 0) then bin = 0 elseif bin >= BINS then bin = BINS - 1 end
      own[FIRST + bin] = own[FIRST + bin] + 1
      own[2] = own[2] + length
      own[0] = own[0] + 1
   end
   return begin, ended
end

return { of = of, now = now }
