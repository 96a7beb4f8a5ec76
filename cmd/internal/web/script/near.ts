// What is far below does not delay what is seen first.

// near waits until an element is about to be seen.
export function near(element: HTMLElement): Promise<void> {
	return new Promise((done) => {
		const watch = new IntersectionObserver((seen) => {
			if (seen.some((s) => s.isIntersecting)) {
				watch.disconnect();
				done();
			}
		}, { rootMargin: "600px" });
		watch.observe(element);
	});
}
