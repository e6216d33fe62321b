/** An error of OpenAI's API. */
export class ApiError extends Error {
  readonly status: number;
  /** The response's body. */
  readonly body: { error: { message: string; type: string; param: string | null; code: string | null } };

  constructor(status: number, message: string, code: string | null, param: string | null = null) {
    super(message);
    const type = status >= 500 ? 'server_error' : status === 401 ? 'authentication_error' : 'invalid_request_error';
    this.status = status;
    this.body = { error: { message, type, param, code } };
  }
}
