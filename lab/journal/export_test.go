package journal

import (
	"context"

	"k8s.io/client-go/dynamic"
)

// Die ends a journal as a killed process does: it renews no more, and gives
// nothing back.
func Die(j *Journal) {
	j.lease.cancel(nil)
	<-j.lease.done
}

// Rise has a journal that died renew once more, as one does whose machine slept,
// and says what became of it.
func Rise(ctx context.Context, j *Journal) error {
	err := j.lease.renew(ctx)
	if err != nil {
		j.lease.lose(err)
	}
	return err
}

// RemoveNamespace takes the journal's namespace away.
func RemoveNamespace(ctx context.Context, kube dynamic.Interface) error {
	_, err := removeNamespace(ctx, kube, func() error { return nil })
	return err
}

// Namespaces is where namespaces are in the API.
var Namespaces = namespaces
