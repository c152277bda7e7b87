package dataplane

import (
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// speaks returns the first protocol among the study's levels that satisfies is; "" if there is
// none.
func speaks(s *study.Study, is func(protocol.Protocol) bool) string {
	for _, name := range s.Levels(study.FactorProtocol) {
		if is(protocol.Of(name)) {
			return name
		}
	}
	return ""
}

// headless reports whether a protocol has no headers: to a sidecar such requests are bytes of a
// connection.
func headless(p protocol.Protocol) bool { return !p.Headers }
