package load

import (
	"context"
	"errors"
)

func start(ctx context.Context, spec Spec, observe Observer) (*Running, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	return nil, errors.New("load: engine to follow")
}
