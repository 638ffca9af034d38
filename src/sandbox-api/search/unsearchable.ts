// What a search below something that is no directory is told: the path says where to look and is no resource that was asked for.
import { AppError } from "../../core/errors.ts";

export function describeUnsearchable(directory: string, cause: AppError): AppError {
  return new AppError("unprocessable", `'${directory}' is no directory that can be searched.`, { cause });
}
