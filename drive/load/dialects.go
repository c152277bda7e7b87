package load

// dialect is the implementation of a protocol: one of its fields is set.
type dialect struct {
	// wire is for protocols with one request at a time on a connection. The event
	// loop sends its bytes in plaintext, a wireCaller over TLS.
	wire func(*Spec, target) *wire
	// channel is for protocols with one stream of messages on a connection, which the event
	// loop sends.
	channel func(spec *Spec, t target, id int) channel
	// caller sends requests over one connection with a library.
	caller func(*Spec, target, *dialer) caller
}

// dialects holds the dialect of each protocol by name. The file that implements a
// protocol registers it in its init.
var dialects = map[string]dialect{}

// CountsWire reports whether a run counts all bytes on its connections as sent and
// received, rather than the contents of requests and responses.
func (s *Spec) CountsWire() bool {
	t, err := s.parseTarget()
	return err == nil && t.looped() && !t.protocol.Streams
}

// looped reports whether the event loop sends to the target, rather than the pool.
func (t target) looped() bool {
	d := dialects[t.protocol.Name]
	return !t.tls && (d.wire != nil || d.channel != nil)
}
