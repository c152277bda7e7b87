package load

// dialect is how the generator speaks a protocol: one of its fields is given.
type dialect struct {
	// wire makes the bytes of requests of which a connection carries one at a
	// time: the event loop sends them in plain text, a wireCaller over TLS.
	wire func(*Spec, target) *wire
	// caller makes requests over one connection by way of a library.
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
