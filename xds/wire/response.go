package wire

// Fields of DiscoveryResponse and DeltaDiscoveryResponse; these are the same
// in both.
const (
	responseVersion   = 1
	responseResources = 2
	responseTypeURL   = 4
	responseNonce     = 5
	// of DeltaDiscoveryResponse alone
	responseRemoved = 6
)

// Fields of Resource and Any.
const (
	resourceVersion = 1
	resourceAny     = 2
	resourceName    = 3
	anyTypeURL      = 1
	anyValue        = 2
)

// Head is what a response says of itself.
type Head struct {
	TypeURL []byte
	Nonce   []byte
	Version []byte
	// NonceAt is the offset of the nonce in the message; -1 if it has none.
	NonceAt int
}

// Peek walks only the outermost fields of a response, of either kind.
func Peek(message []byte) (Head, error) {
	h := Head{NonceAt: -1}
	c := cursor{b: message, what: "response"}
	for {
		f, ok, err := c.next()
		if err != nil || !ok {
			return h, err
		}
		switch f.num {
		case responseVersion, responseTypeURL, responseNonce:
			if err := f.wantBytes("response"); err != nil {
				return h, err
			}
		}
		switch f.num {
		case responseVersion:
			h.Version = f.bytes
		case responseTypeURL:
			h.TypeURL = f.bytes
		case responseNonce:
			h.Nonce, h.NonceAt = f.bytes, f.start
		}
	}
}

// Resource is one resource of a response.
type Resource struct {
	// Name of the resource. State of the world does not say it; there it is
	// taken from the body.
	Name    []byte
	Version []byte // delta only
	TypeURL []byte // of the body
	Body    []byte
}

// Response is a DiscoveryResponse or a DeltaDiscoveryResponse.
type Response struct {
	Head
	Resources []Resource
	Removed   [][]byte // delta only: names
}

// ParseDelta reads a DeltaDiscoveryResponse.
func ParseDelta(message []byte) (Response, error) { return parse(message, true) }

// ParseSotW reads a DiscoveryResponse.
func ParseSotW(message []byte) (Response, error) { return parse(message, false) }

func parse(message []byte, delta bool) (Response, error) {
	head, err := Peek(message)
	r := Response{Head: head}
	if err != nil {
		return r, err
	}
	err = each("response", message, func(f field) error {
		switch {
		case f.num == responseResources:
			if err := f.wantBytes("response"); err != nil {
				return err
			}
			if len(r.Resources) >= MaxResources {
				return tooMany("resources", MaxResources)
			}
			var one Resource
			var err error
			if delta {
				one, err = parseResource(f.bytes)
			} else {
				one, err = parseAnyResource(f.bytes, string(head.TypeURL))
			}
			r.Resources = append(r.Resources, one)
			return err
		case f.num == responseRemoved && delta:
			if err := f.wantBytes("response"); err != nil {
				return err
			}
			if len(r.Removed) >= MaxResources {
				return tooMany("removals", MaxResources)
			}
			r.Removed = append(r.Removed, f.bytes)
		}
		return nil
	})
	return r, err
}

func parseResource(b []byte) (Resource, error) {
	var r Resource
	err := each("resource", b, func(f field) error {
		switch f.num {
		case resourceVersion, resourceAny, resourceName:
			if err := f.wantBytes("resource"); err != nil {
				return err
			}
		}
		var err error
		switch f.num {
		case resourceVersion:
			r.Version = f.bytes
		case resourceName:
			r.Name = f.bytes
		case resourceAny:
			r.TypeURL, r.Body, err = parseAny(f.bytes)
		}
		return err
	})
	return r, err
}

func parseAnyResource(b []byte, typeURL string) (Resource, error) {
	var r Resource
	var err error
	if r.TypeURL, r.Body, err = parseAny(b); err != nil {
		return r, err
	}
	r.Name, err = Name(typeURL, r.Body)
	return r, err
}

// parseAny reads a google.protobuf.Any.
func parseAny(b []byte) (typeURL, value []byte, err error) {
	err = each("any", b, func(f field) error {
		if f.num == anyTypeURL || f.num == anyValue {
			if err := f.wantBytes("any"); err != nil {
				return err
			}
		}
		switch f.num {
		case anyTypeURL:
			typeURL = f.bytes
		case anyValue:
			value = f.bytes
		}
		return nil
	})
	return typeURL, value, err
}

// Name returns the name that a resource's body has: field 1 of clusters,
// listeners, routes, load assignments, secrets and extensions. A table of
// names has none.
func Name(typeURL string, body []byte) ([]byte, error) {
	if typeURL == NameTableType {
		return nil, nil
	}
	var name []byte
	c := cursor{b: body, what: "resource body"}
	for {
		f, ok, err := c.next()
		if err != nil || !ok {
			return name, err
		}
		if f.num != 1 {
			continue
		}
		if err := f.wantBytes("resource body"); err != nil {
			return nil, err
		}
		name = f.bytes
	}
}
