package node

import (
	"testing"
	"time"
)

// A lease that is renewed between its end's being seen and the fault's being
// taken away goes on: whoever renewed it was told so.
func TestRenewedWhileItEnds(t *testing.T) {
	s := newServer(t)
	ended := false
	f := &standing{Fault: Fault{ID: "1"}, end: func() error { ended = true; return nil }}
	f.count = func() (Packets, error) { // what undo asks for before it takes the fault
		if _, err := s.extend(ExtendRequest{IDs: []string{"1"}, LeaseMS: 60_000}); err != nil {
			t.Error(err)
		}
		return Packets{}, nil
	}
	s.faults[1] = f
	lapsed := func(f *standing) bool { return f.ExpiresNS <= time.Now().UnixNano() }
	if err := s.undoAll(lapsed); err != nil {
		t.Fatal(err)
	}
	if _, stands := s.faults[1]; !stands || ended {
		t.Errorf("stands = %v, ended = %v: it was renewed", stands, ended)
	}
	f.count, f.ExpiresNS = nil, 0
	if err := s.undoAll(lapsed); err != nil {
		t.Fatal(err)
	}
	if _, stands := s.faults[1]; stands || !ended {
		t.Errorf("stands = %v, ended = %v: its lease is over", stands, ended)
	}
}
