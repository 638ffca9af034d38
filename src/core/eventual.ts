// Results that may be there at once: going on with them then costs no turn of the event loop, which on hot paths is half the work.

export type Eventual<Result> = Result | Promise<Result>;

/** Goes on with what is given: at once when it is there. */
export function proceed<Given, Result>(
  given: Eventual<Given>,
  next: (value: Given) => Eventual<Result>,
): Eventual<Result> {
  return given instanceof Promise ? given.then(next) : next(given);
}

/** Does the work; what it throws, at once or later, is thrown as `translate` gives it. */
export function translateErrors<Result>(
  work: () => Eventual<Result>,
  translate: (error: unknown) => unknown,
): Eventual<Result> {
  const fail = (error: unknown): never => {
    throw translate(error);
  };
  try {
    const result = work();
    return result instanceof Promise ? result.catch(fail) : result;
  } catch (error) {
    return fail(error);
  }
}
