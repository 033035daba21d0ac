//! The Lua scripts. Each touches one key, or one record and its tombstone, which share a slot of a
//! cluster.
//!
//! A record is a hash: `v` its version, `r` the sealed content, `b` its start. The key's time to
//! live is the time until it expires, so that only the clock of Redis measures it. A tombstone
//! holds the time of a revocation and outlives every copy of the record.

use redis::Script;

/// A record is kept for this much longer than it is live, in milliseconds, so that use that is not
/// written yet is not lost.
pub(super) const GRACE: u64 = 120_000;

/// In place of a time to live: the record was revoked.
pub(super) const REVOKED: i64 = -10;
/// In place of a time to live: there is no such record.
pub(super) const MISSING: i64 = -11;

/// The scripts, ready to be called.
pub(super) struct Scripts {
    /// Keys: record, tombstone. Arguments: version, sealed content, time to live (ms), start (s).
    /// Returns the time to live, or [`REVOKED`], and the stored version: an older one never
    /// replaces a newer one.
    pub(super) save: Script,
    /// Keys: record, tombstone. Returns the sealed content (or nil), the time to live, and the time
    /// of the revocation (or -1).
    pub(super) load: Script,
    /// Keys: record, tombstone. Argument: time to live (ms). Returns the time to live and the
    /// version; [`MISSING`] or [`REVOKED`] in place of the first.
    pub(super) touch: Script,
    /// Keys: record, tombstone. Arguments: time (s), how long the tombstone is kept (ms), whether
    /// it was published before (1 or 0): then a record that started later is kept. Returns the time
    /// of the revocation, which is never before the start, even if the clocks differ.
    pub(super) revoke: Script,
    /// Key: the revocation of an app. Arguments: time (s), how long it is kept (ms).
    pub(super) revoke_app: Script,
    /// Key: lock. Argument: its holder.
    pub(super) unlock: Script,
    /// Key: the list of a person's sign-ins. Arguments: the key of one, how long the list is kept
    /// (ms). Moves the key to the end, without duplicates, and returns the list.
    pub(super) append: Script,
}

impl Scripts {
    pub(super) fn new() -> Scripts {
        Scripts {
            save: Script::new(SAVE),
            load: Script::new(LOAD),
            touch: Script::new(TOUCH),
            revoke: Script::new(REVOKE),
            revoke_app: Script::new(REVOKE_APP),
            unlock: Script::new(UNLOCK),
            append: Script::new(APPEND),
        }
    }
}

const SAVE: &str = r"
local ended = redis.call('GET', KEYS[2])
if ended and tonumber(ended) >= tonumber(ARGV[4]) then return { -10, 0 } end
local version = tonumber(redis.call('HGET', KEYS[1], 'v') or '0')
if version < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'v', ARGV[1], 'r', ARGV[2], 'b', ARGV[4])
  version = tonumber(ARGV[1])
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return { redis.call('PTTL', KEYS[1]), version }
";

const LOAD: &str = r"
local record = redis.call('HGET', KEYS[1], 'r')
return { record, redis.call('PTTL', KEYS[1]), tonumber(redis.call('GET', KEYS[2]) or '-1') }
";

const TOUCH: &str = r"
local ended = redis.call('GET', KEYS[2])
local begun = redis.call('HGET', KEYS[1], 'b')
if ended and (not begun or tonumber(ended) >= tonumber(begun)) then return { -10, 0 } end
local left = redis.call('PTTL', KEYS[1])
if left == -2 then return { -11, 0 } end
if left < tonumber(ARGV[1]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  left = tonumber(ARGV[1])
end
return { left, tonumber(redis.call('HGET', KEYS[1], 'v') or '0') }
";

const REVOKE: &str = r"
local when = tonumber(ARGV[1])
local known = tonumber(redis.call('GET', KEYS[2]) or '-1')
local is_record = redis.call('TYPE', KEYS[1]).ok == 'hash'
local begun = tonumber(is_record and redis.call('HGET', KEYS[1], 'b') or '-1')
if ARGV[3] == '1' and begun > when then return math.max(when, known) end
when = math.max(when, known, begun)
redis.call('SET', KEYS[2], when, 'PX', ARGV[2])
redis.call('DEL', KEYS[1])
return when
";

const REVOKE_APP: &str = r"
local when = math.max(tonumber(ARGV[1]), tonumber(redis.call('GET', KEYS[1]) or '-1'))
redis.call('SET', KEYS[1], when, 'PX', ARGV[2])
return when
";

const UNLOCK: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 0
";

const APPEND: &str = r"
redis.call('LREM', KEYS[1], 0, ARGV[1])
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('LRANGE', KEYS[1], 0, -1)
";
