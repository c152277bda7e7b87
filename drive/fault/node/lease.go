package node

import (
	"context"
	"strconv"
	"time"
)

// expireEvery is how often leases are checked.
const expireEvery = 100 * time.Millisecond

// stand registers a fault that is in force from now on.
func (s *Server) stand(id uint64, f standing, lease time.Duration) (Fault, error) {
	now := time.Now()
	f.ID, f.BeganNS = strconv.FormatUint(id, 10), now.UnixNano()
	f.lease(now, lease)
	s.mu.Lock()
	s.faults[id] = &f
	out := f.Fault
	s.mu.Unlock()
	s.options.Log.Info("fault begins", "id", id, "pod", f.PodUID, "what", f.What)
	return out, nil
}

// lease sets when a fault ends. The monotonic reading of now counts, so that setting the
// clock neither ends nor prolongs a fault.
func (f *standing) lease(now time.Time, lease time.Duration) {
	f.until = now.Add(lease)
	f.ExpiresNS = f.until.UnixNano()
}

// lapsed reports whether leases are over at now.
func lapsed(now time.Time) func(*standing) bool {
	return func(f *standing) bool { return !now.Before(f.until) }
}

// extend sets the rest of a lease.
func (s *Server) extend(id string, in ExtendRequest) (Fault, error) {
	if err := validateLease(in.LeaseMS); err != nil {
		return Fault{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.get(id)
	if err != nil {
		return Fault{}, err
	}
	f.lease(time.Now(), lease(in.LeaseMS))
	return f.Fault, nil
}

// expire ends faults whose lease is over, until ctx ends.
func (s *Server) expire(ctx context.Context) {
	ticker := time.NewTicker(expireEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = s.undoAll(lapsed(time.Now())) // logged
		}
	}
}
