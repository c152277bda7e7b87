package xds

import "time"

// HeapAlloc returns the live heap in bytes.
func HeapAlloc() int64 { return heapAlloc() }

// LimitWarming limits how long an acknowledgement is held.
func (f *Fleet) LimitWarming(d time.Duration) { f.warmAfter.Store(int64(d)) }

// GiveBack does immediately what the fleet does when all is quiet.
func (f *Fleet) GiveBack() { f.giveBack() }

// Forget makes the fleet forget the steps of its proxies.
func (f *Fleet) Forget() { f.sightings.expire(time.Now().Add(2 * rememberFor)) }

// KeepNoBodies prevents the fleet from keeping bodies of new contents.
func (f *Fleet) KeepNoBodies() { f.catalogue.bodies.Add(keptBodies) }
