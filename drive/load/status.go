package load

import (
	"fmt"
	"strconv"
)

// statuses is the set of HTTP statuses that count as success.
type statuses [600]bool

// parseStatuses parses statuses and status classes, such as 200 and 3xx; an empty
// list means 2xx.
func parseStatuses(list []string) (*statuses, error) {
	if len(list) == 0 {
		list = []string{"2xx"}
	}
	s := &statuses{}
	for _, text := range list {
		from, to := 0, 0
		if len(text) == 3 && text[1:] == "xx" && text[0] >= '2' && text[0] <= '5' {
			from = int(text[0]-'0') * 100
			to = from + 99
		} else if n, err := strconv.Atoi(text); err == nil && len(text) == 3 && n >= 200 && n < len(s) {
			from, to = n, n
		} else {
			return nil, fmt.Errorf("%.20q is not an HTTP response status: use 200 to 599, or a class such as 2xx", text)
		}
		for i := from; i <= to; i++ {
			s[i] = true
		}
	}
	return s, nil
}

// expectedStatuses returns the Spec's statuses, which are valid.
func (s *Spec) expectedStatuses() *statuses {
	out, err := parseStatuses(s.ExpectStatus)
	if err != nil {
		out = &statuses{}
	}
	return out
}

// ok reports whether a status is a success.
func (s *statuses) ok(status int) bool { return status >= 0 && status < len(s) && s[status] }
