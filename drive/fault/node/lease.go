package node

import (
	"context"
	"fmt"
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

// extend sets the rest of leases: all of them, or none on error.
func (s *Server) extend(in ExtendRequest) (FaultsAnswer, error) {
	if err := validateLease(in.LeaseMS); err != nil {
		return FaultsAnswer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var chosen []*standing
	for _, id := range in.IDs {
		n, err := strconv.ParseUint(id, 10, 64)
		f := s.faults[n]
		if err != nil || f == nil {
			return FaultsAnswer{}, fmt.Errorf("no active fault %.40q: %w", id, errNotFound)
		}
		chosen = append(chosen, f)
	}
	out := FaultsAnswer{Schema: Schema, Faults: []Fault{}}
	for _, f := range chosen {
		f.lease(time.Now(), lease(in.LeaseMS))
		out.Faults = append(out.Faults, f.Fault)
	}
	return out, nil
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
