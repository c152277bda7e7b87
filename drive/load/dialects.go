package load

// dialect is the implementation of a protocol: one of its fields is set.
type dialect struct {
	// wire is for protocols with one request at a time on a connection. The event
	// loop sends its bytes in plaintext, a wireCaller over TLS.
	wire func(*Spec, target) *wire
	// caller sends requests over one connection with a library.
	caller func(*Spec, target, *dialer) caller
}

// dialects has one for each of the protocols, by its name. The file that speaks
// a protocol puts it here when the program starts.
var dialects = map[string]dialect{}

// CountsWire says that what a run counts as sent and read is all that passed on its
// connections; else it is what requests and answers held.
func (s *Spec) CountsWire() bool {
	t, err := s.parseTarget()
	return err == nil && t.looped()
}

// looped tells whether the event loop sends to the target, or the pool.
func (t target) looped() bool { return !t.tls && dialects[t.protocol.Name].wire != nil }
