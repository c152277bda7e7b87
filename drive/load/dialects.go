package load

// dialect is the implementation of a protocol: one of its fields is set.
type dialect struct {
	// wire is for protocols with one request at a time on a connection. The event
	// loop sends its bytes in plaintext, a wireCaller over TLS.
	wire func(*Spec, target) *wire
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
	return err == nil && t.looped()
}

// looped reports whether the event loop sends to the target, rather than the pool.
func (t target) looped() bool { return !t.tls && dialects[t.protocol.Name].wire != nil }
