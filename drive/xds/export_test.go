package xds

import "time"

// LimitWarming sets how long an acknowledgement is held at most.
func (f *Fleet) LimitWarming(d time.Duration) { f.warmAfter.Store(int64(d)) }

// GiveBack does at once what the fleet does when all is quiet.
func (f *Fleet) GiveBack() { f.giveBack() }

// Forget has the fleet forget what proxies took.
func (f *Fleet) Forget() { f.sightings.expire(time.Now().Add(2 * rememberFor)) }

// KeepNoBodies has no body of a content kept that is met from now on.
func (f *Fleet) KeepNoBodies() { f.catalogue.bodies.Add(keptBodies) }
