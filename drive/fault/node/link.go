package node

import "time"

// maxBacklog limits how long a packet waits for a busy link. Others are dropped, as the
// buffer of a real link is bounded.
const maxBacklog = 500 * time.Millisecond

// link models a line: a packet occupies it for its length at the line's rate, and then
// travels for its delay.
type link struct {
	delay time.Duration
	rate  int64 // bits per second; 0: no limit
	free  int64 // when the last packet has been sent, in nanoseconds
}

// cross returns when a packet that arrives at an instant leaves the line; false if the
// line's buffer is full. An idle line accepts any packet.
func (l *link) cross(at int64, bytes int) (due int64, ok bool) {
	begin := max(at, l.free)
	if begin-at > int64(maxBacklog) {
		return 0, false
	}
	if l.rate > 0 {
		begin += int64(float64(bytes) * 8 * float64(time.Second) / float64(l.rate))
	}
	l.free = begin
	return begin + int64(l.delay), true
}
