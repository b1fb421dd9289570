;;; edn-bridge-rpc.el --- Requests and events over EDN lines  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; One connection to a bridge: the process, the requests that wait for
;; their answer, and the events.  A library: it shows nothing, keeps no
;; session and can carry another frontend than the one of this package.
;;
;; What holds:
;;
;; - The filter only cuts lines.  Frames are read and dispatched from a
;;   timer, in the order in which they came, never inside the filter and
;;   never inside another dispatch.
;; - No handler asks the user: `inhibit-interaction' is set.  A handler
;;   that has something to ask does so from `edn-bridge-rpc-later' or from
;;   a button.
;; - One run of dispatching lasts at most
;;   `edn-bridge-rpc-dispatch-seconds' and stops when a key is pressed.
;;   The rest follows; nothing is dropped.
;; - A request gets exactly one answer: its response, its error, or the
;;   error "client/closed" when the connection ends.
;; - Events are numbered without a gap.  A missing number is reported
;;   to the handler for gaps.
;; - An unknown topic is handed on, an unknown kind of frame is logged and
;;   left alone.
;;
;; A frontend starts a connection and is called back:
;;
;;   (setq conn (edn-bridge-rpc-connect
;;               :command '("edn-bridge" "serve")
;;               :on-event (lambda (conn topic data) ...)
;;               :on-ready (lambda (conn)
;;                           (edn-bridge-rpc-request
;;                            conn "subscribe" nil
;;                            :on-success (lambda (data) ...)))
;;               :on-close (lambda (conn reason) ...)))

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'edn-bridge-constants)
(require 'edn-bridge-edn)

;;;; Options

(defgroup edn-bridge nil
  "A coding agent's sessions in Emacs, over EDN lines."
  :group 'tools
  :prefix "edn-bridge-"
  :link '(emacs-commentary-link :tag "Commentary" "edn-bridge.el"))

(defcustom edn-bridge-rpc-dispatch-seconds 0.04
  "How long Emacs may dispatch frames before it looks at the keyboard again."
  :type 'number
  :group 'edn-bridge)

(defcustom edn-bridge-rpc-request-timeout 30
  "How many seconds a command waits for an answer that it cannot do without.
\\[keyboard-quit] ends the waiting at any time."
  :type 'number
  :group 'edn-bridge)

;;;; Public API

(cl-defstruct (edn-bridge-rpc-connection
               (:constructor edn-bridge-rpc--make-connection)
               (:copier nil))
  "A connection to a bridge."
  (name nil :documentation "What it is called in messages and the log.")
  (process nil :documentation "The bridge's process.")
  (errors nil :documentation "Buffer with what the process wrote on stderr.")
  (state 'starting :documentation "One of `starting', `ready', `closed'.")
  (server nil :documentation "Property list of the handshake's answer.")
  (features nil :documentation "List of the features agreed on.")
  (seq 0 :documentation "Number of the last event dispatched.")
  (event nil :documentation "Frame of the last event dispatched.")
  (acknowledged 0 :documentation "Number of the last event acknowledged.")
  (close-reason nil :documentation "Why it is closed, a line of text.")
  (plist-frames nil :documentation "Non-nil once frames come as plists.")
  (pending nil :documentation "Hash table from id to pending request.")
  (next-id 0 :documentation "Count of the requests sent.")
  (pieces nil :documentation "Chunks of the unfinished line, last first.")
  (lines nil :documentation "Lines not yet dispatched, in order; a line that
came in pieces is a list of them, last first.")
  (lines-tail nil :documentation "Last cons of the lines.")
  (timer nil :documentation "Timer that will dispatch, or nil.")
  (dispatching nil :documentation "Non-nil while frames are dispatched.")
  (on-event nil :documentation "Called with connection, topic and data.")
  (on-batch nil :documentation "Called with connection after some events.")
  (on-ready nil :documentation "Called with connection when it is ready.")
  (on-close nil :documentation "Called with connection and reason.")
  (on-gap nil :documentation "Called with connection when events are missing.")
  (context nil :documentation "Whatever the owner wants to find again."))

(define-error 'edn-bridge-rpc-error "The bridge answered with an error")

(defvar edn-bridge-rpc-log-functions nil
  "Abnormal hook that sees all that goes over a connection.
Each function is called with the connection, a direction (`out', `in',
`note') and the text of the line, as bytes for `in'.  A test that
wants to see the traffic uses it just as the log buffer does.")

(cl-defun edn-bridge-rpc-connect
    (&key command name directory features client-name context
          on-event on-batch on-ready on-close on-gap)
  "Start a bridge by COMMAND, a list of strings, and return its connection.
The process runs in DIRECTORY (default: `default-directory'), which may be
remote.  NAME is for messages and the log.  FEATURES are the features to
ask for besides `plist-frames'.  CLIENT-NAME is what the handshake says
that the client is.  CONTEXT is kept in the connection.

ON-READY is called with the connection when the handshake is answered.
ON-EVENT is called with the connection, the topic (a string) and the data
\(a property list) of each event, in order; ON-BATCH with the connection
whenever the events that had come so far are done.  ON-GAP is called with
the connection where events got lost on the way, before the next one.
ON-CLOSE is called once, with the connection and a line of text that says why.

Signal `file-missing' where the program is not there."
  (let* ((default-directory (or directory default-directory))
         (name (or name "edn-bridge"))
         (errors (generate-new-buffer (format " *%s stderr*" name)))
         (conn (edn-bridge-rpc--make-connection
                :name name
                :errors errors
                :pending (make-hash-table :test #'equal)
                :context context
                :on-event (or on-event #'ignore)
                :on-batch (or on-batch #'ignore)
                :on-ready (or on-ready #'ignore)
                :on-close (or on-close #'ignore)
                :on-gap (or on-gap #'ignore))))
    (condition-case err
        (edn-bridge-rpc--start conn command)
      (error (kill-buffer errors)
             (signal (car err) (cdr err))))
    (edn-bridge-rpc--handshake conn
                               (or client-name "emacs")
                               (cons "plist-frames" features))
    conn))

(cl-defun edn-bridge-rpc-request (conn op params &key on-success on-error)
  "Send to CONN the request OP with PARAMS, a property list; return its id.
ON-SUCCESS is called with the response's data.  ON-ERROR is called with
the error frame, a property list with `:error-code', `:error-message' and
possibly `:data'; without it the error is shown as a message.

Where the connection is closed, ON-ERROR is called with \"client/closed\"
before this function returns."
  (let ((id (number-to-string (cl-incf (edn-bridge-rpc-connection-next-id conn))))
        (request (list op on-success on-error)))
    (if (not (edn-bridge-rpc-live-p conn))
        (edn-bridge-rpc--fail request (edn-bridge-rpc--closed-error conn))
      (puthash id request (edn-bridge-rpc-connection-pending conn))
      (edn-bridge-rpc--send conn (list :id id
                                       :kind :request
                                       :op op
                                       :params (or params
                                                   edn-bridge-edn-empty-map))))
    id))

(defun edn-bridge-rpc-executable (program)
  "Return the file of PROGRAM on the host of `default-directory', or nil.
PROGRAM is a name that is searched for, or a file name of that host."
  (let ((host (file-remote-p default-directory)))
    (if (and host (file-name-absolute-p program))
        ;; `executable-find' looks for a whole file name on this host.
        (let ((file (expand-file-name (concat host program))))
          (and (file-executable-p file)
               (not (file-directory-p file))
               (file-local-name file)))
      (executable-find program t))))

(defun edn-bridge-rpc-call (conn op params)
  "Send to CONN the request OP with PARAMS, wait, and return the data.
For commands that cannot go on without the answer.  Events that come
meanwhile are dispatched.  Signal `edn-bridge-rpc-error' with the message
and the error frame where the answer is an error, or there is none within
`edn-bridge-rpc-request-timeout' seconds."
  (let* ((answer nil)
         (deadline (+ (float-time) edn-bridge-rpc-request-timeout)))
    (edn-bridge-rpc-request
     conn op params
     :on-success (lambda (data) (setq answer (list 'data data)))
     :on-error (lambda (frame) (setq answer (list 'error frame))))
    (while (and (not answer) (< (float-time) deadline))
      ;; Not for this process alone: its end would then not be noticed.
      (accept-process-output nil 0.05)
      (edn-bridge-rpc--dispatch conn))
    (pcase answer
      (`(data ,data) data)
      (`(error ,frame)
       (signal 'edn-bridge-rpc-error
               (list (plist-get frame :error-message) frame)))
      (_ (signal 'edn-bridge-rpc-error
                 (list (format "No answer to %s within %s seconds"
                               op edn-bridge-rpc-request-timeout)
                       nil))))))

(defun edn-bridge-rpc-live-p (conn)
  "Return non-nil if CONN is not closed."
  (and conn (not (eq (edn-bridge-rpc-connection-state conn) 'closed))))

(defun edn-bridge-rpc-ready-p (conn)
  "Return non-nil if the handshake of CONN is done and CONN is not closed."
  (and conn (eq (edn-bridge-rpc-connection-state conn) 'ready)))

(defun edn-bridge-rpc-feature-p (conn feature)
  "Return non-nil if FEATURE was agreed on at the handshake of CONN."
  (member feature (edn-bridge-rpc-connection-features conn)))

(defun edn-bridge-rpc-close (conn &optional reason)
  "End CONN.  The bridge sees the end of its input and ends by itself.
ON-CLOSE receives REASON, by default \"closed\"."
  (let ((process (edn-bridge-rpc-connection-process conn)))
    (edn-bridge-rpc--closed conn (or reason "closed"))
    (when (process-live-p process)
      (condition-case nil
          (process-send-eof process)
        (error (delete-process process)))
      ;; The end of the input may not reach another host.
      (when (process-get process 'edn-bridge-rpc-remote)
        (edn-bridge-rpc-when-ended conn #'ignore)))))

(defvar edn-bridge-rpc--grace 5
  "How many seconds a process has to end when its connection is closed.")

(defun edn-bridge-rpc-when-ended (conn function)
  "Call FUNCTION when the process of CONN, which is closed, has ended.
One that does not end by itself is ended."
  (let* ((process (edn-bridge-rpc-connection-process conn))
         (deadline (+ (float-time) edn-bridge-rpc--grace)))
    (cl-labels ((look ()
                  (cond ((not (process-live-p process))
                         (funcall function))
                        ((< (float-time) deadline)
                         (run-at-time 0.05 nil #'look))
                        (t
                         (delete-process process)
                         (funcall function)))))
      (look))))

(defun edn-bridge-rpc-event-id (conn)
  "Return the id of the request that caused the event that CONN dispatches.
It is nil where no request of CONN did."
  (plist-get (edn-bridge-rpc-connection-event conn) :id))

(defun edn-bridge-rpc-stderr (conn &optional lines)
  "Return the last LINES (default: 5) that the process of CONN wrote on stderr."
  (if (not (buffer-live-p (edn-bridge-rpc-connection-errors conn)))
      ""
    (with-current-buffer (edn-bridge-rpc-connection-errors conn)
      (save-excursion
        (goto-char (point-max))
        (skip-chars-backward "\n")
        (let ((end (point)))
          (forward-line (- 1 (or lines 5)))
          (buffer-substring-no-properties (point) end))))))

(defun edn-bridge-rpc-forget (conn)
  "Drop what is kept of CONN, which should be closed, beyond the object."
  (let ((errors (edn-bridge-rpc-connection-errors conn)))
    (when (buffer-live-p errors)
      (let ((kill-buffer-query-functions nil))
        (kill-buffer errors)))))

(defmacro edn-bridge-rpc--guard (conn what &rest body)
  "Run BODY, which cannot ask the user; show an error, do not pass it on.
CONN and WHAT tell where it came from.  With `debug-on-error' it is
passed on to the debugger."
  (declare (indent 2) (debug t))
  (let ((err (make-symbol "err")))
    `(condition-case-unless-debug ,err
         (let ((inhibit-interaction t))
           ,@body)
       (error
        (message "%s: error in %s handler: %s"
                 (edn-bridge-rpc-connection-name ,conn) ,what
                 (error-message-string ,err))))))

(defun edn-bridge-rpc-later (function)
  "Call FUNCTION in this buffer, if it is live, from a timer of its own.
There it may ask the user, which no handler may."
  (let ((buffer (current-buffer)))
    (run-at-time
     0 nil
     (lambda ()
       (when (buffer-live-p buffer)
         (with-current-buffer buffer
           ;; In a timer nothing can be quit.
           (let ((inhibit-quit nil))
             (condition-case-unless-debug err
                 (funcall function)
               (quit nil)
               (error (message "edn-bridge: %s"
                               (error-message-string err)))))))))))

;;;; The process

(defun edn-bridge-rpc--start (conn command)
  "Start COMMAND as the process of CONN."
  ;; Emacs would start the process and have it fail.
  (unless (edn-bridge-rpc-executable (car command))
    (signal 'file-missing (list "Searching for program"
                                "No such program" (car command))))
  (let* ((errors (edn-bridge-rpc-connection-errors conn))
         (process-adaptive-read-buffering nil)
         (process
          (edn-bridge-rpc--direct
           (lambda ()
             (make-process
              :name (edn-bridge-rpc-connection-name conn)
              :command command
              :connection-type 'pipe
              :coding '(binary . utf-8-unix)
              :noquery t
              :file-handler t
              :stderr errors
              :filter (lambda (_process chunk)
                        (edn-bridge-rpc--receive conn chunk))
              :sentinel (lambda (process _change)
                          (unless (process-live-p process)
                            (edn-bridge-rpc--ended conn process))))))))
    (process-put process 'edn-bridge-rpc-remote
                 (file-remote-p default-directory))
    (setf (edn-bridge-rpc-connection-process conn) process)
    (when-let ((pipe (get-buffer-process errors)))
      (set-process-query-on-exit-flag pipe nil)
      (set-process-sentinel pipe (lambda (_pipe _change)
                                   (edn-bridge-rpc--look conn '(0.02 0.2 1)))))))

(defvar tramp-methods)
(defvar tramp-direct-async-process)
(defvar connection-local-profile-alist)
(defvar connection-local-criteria-alist)
(declare-function tramp-tramp-file-p "tramp")
(declare-function tramp-dissect-file-name "tramp")
(declare-function tramp-get-connection-property "tramp-cache")
(declare-function tramp-set-connection-property "tramp-cache")

(defun edn-bridge-rpc--direct (start)
  "Call START, which starts a process in `default-directory'.
Where that is remote and its method can, the process gets a pipe of its
own to the host.  By default Tramp types the command into a shell on a
terminal there, which may swallow what is sent to it first, and keeps the
end of the input to itself: the program would run on for ever."
  (if (not (and (file-remote-p default-directory)
                (fboundp 'tramp-tramp-file-p)
                (tramp-tramp-file-p default-directory)))
      (funcall start)
    (let ((tramp-methods
           (mapcar (lambda (method)
                     (if (assq 'tramp-direct-async (cdr method))
                         ;; In Emacs 30 this asks for a terminal after all.
                         `(,(car method) (tramp-direct-async t)
                           ,@(assq-delete-all 'tramp-direct-async
                                              (copy-sequence (cdr method))))
                       method))
                   tramp-methods)))
      (if (boundp 'tramp-direct-async-process)
          ;; From Emacs 30 on.
          (let ((connection-local-profile-alist
                 (cons '(edn-bridge-rpc (tramp-direct-async-process . t))
                       connection-local-profile-alist))
                (connection-local-criteria-alist
                 (cons '((:application tramp) edn-bridge-rpc)
                       connection-local-criteria-alist)))
            (funcall start))
        (let* ((host (tramp-dissect-file-name default-directory))
               (before (tramp-get-connection-property
                        host "direct-async-process" nil)))
          (unwind-protect
              (progn
                (tramp-set-connection-property host "direct-async-process" t)
                (funcall start))
            (tramp-set-connection-property host "direct-async-process"
                                           before)))))))

(defun edn-bridge-rpc--look (conn delays)
  "Look after each of DELAYS, in seconds, whether the process of CONN ended.
Emacs on a terminal may notice that only at the next key.  The end of a
process's stderr it notices at once, and so this is called then."
  (when (and delays (edn-bridge-rpc-live-p conn))
    (run-at-time
     (car delays) nil
     (lambda ()
       (let ((process (edn-bridge-rpc-connection-process conn)))
         (if (process-live-p process)
             (edn-bridge-rpc--look conn (cdr delays))
           (edn-bridge-rpc--ended conn process)))))))

(defun edn-bridge-rpc--ended (conn process)
  "Close CONN, whose PROCESS has ended, once its last lines are dispatched."
  (when (edn-bridge-rpc-live-p conn)
    (edn-bridge-rpc--drain conn process)
    (while (and (edn-bridge-rpc-connection-lines conn)
                (edn-bridge-rpc-live-p conn)
                (not (edn-bridge-rpc-connection-dispatching conn)))
      (edn-bridge-rpc--dispatch conn))
    (edn-bridge-rpc--closed
     conn
     (pcase (process-status process)
       ('exit (format "the process ended with status %d"
                      (process-exit-status process)))
       ('signal (format "the process was ended by signal %d"
                        (process-exit-status process)))
       (status (format "the process is gone (%s)" status))))))

(defun edn-bridge-rpc--drain (conn process)
  "Take what PROCESS of CONN, which has ended, left on stdout and stderr.
A process that it started may go on writing: that is not waited for."
  (let ((rounds 0))
    (while (and (< (cl-incf rounds) 1000)
                (accept-process-output process 0)))
    (setq rounds 0)
    (when-let ((pipe (get-buffer-process
                      (edn-bridge-rpc-connection-errors conn))))
      (while (and (< (cl-incf rounds) 20)
                  (accept-process-output pipe 0.02))))))

(defun edn-bridge-rpc--closed (conn reason)
  "Mark CONN as closed for REASON, and call everything that waits for it."
  (unless (eq (edn-bridge-rpc-connection-state conn) 'closed)
    (setf (edn-bridge-rpc-connection-state conn) 'closed
          (edn-bridge-rpc-connection-lines conn) nil
          (edn-bridge-rpc-connection-pieces conn) nil
          (edn-bridge-rpc-connection-close-reason conn) reason)
    (when-let ((timer (edn-bridge-rpc-connection-timer conn)))
      (cancel-timer timer)
      (setf (edn-bridge-rpc-connection-timer conn) nil))
    (edn-bridge-rpc--log conn 'note reason)
    (let ((requests (hash-table-values (edn-bridge-rpc-connection-pending conn))))
      (clrhash (edn-bridge-rpc-connection-pending conn))
      (dolist (request requests)
        (edn-bridge-rpc--guard conn "error"
          (edn-bridge-rpc--fail request (edn-bridge-rpc--closed-error conn)))))
    (edn-bridge-rpc--guard conn "close"
      (funcall (edn-bridge-rpc-connection-on-close conn) conn reason))))

(defun edn-bridge-rpc--closed-error (conn)
  "Return the error frame that a request gets as CONN is closed."
  (list :kind :error
        :error-code "client/closed"
        :error-message (format "Not connected: %s"
                               (edn-bridge-rpc-connection-close-reason conn))))

;;;; Lines out

(defun edn-bridge-rpc--send (conn frame)
  "Send FRAME, a property list, to CONN."
  (let ((line (edn-bridge-edn-print-string frame)))
    (edn-bridge-rpc--log conn 'out line)
    ;; The sentinel, which comes next, fails what is pending.
    (condition-case err
        ;; In batch mode, a write to what has ended would end Emacs.
        (if (process-live-p (edn-bridge-rpc-connection-process conn))
            (process-send-string (edn-bridge-rpc-connection-process conn)
                                 (concat line "\n"))
          (edn-bridge-rpc--log conn 'note "the process has ended"))
      (error
       (edn-bridge-rpc--log conn 'note (error-message-string err))))))

(defvar edn-bridge-rpc--handshake-again 3
  "After how many seconds without an answer the handshake is sent again.
What is sent to a host before its shell has started the program may get
lost.  The program takes a second handshake like the first.")

(defun edn-bridge-rpc--handshake (conn client-name features)
  "Shake hands on CONN as CLIENT-NAME, asking for FEATURES."
  (let* ((params
          (list :client-info
                (list :name client-name
                      :version emacs-version
                      :protocol-version edn-bridge-constants-protocol-version
                      :features (vconcat features))))
         (id
          (edn-bridge-rpc-request
           conn "handshake" params
           :on-success
           (lambda (data)
             (let* ((server (plist-get data :server-info))
                    (agreed (append (plist-get server :features) nil)))
               (setf (edn-bridge-rpc-connection-server conn) server
                     (edn-bridge-rpc-connection-features conn)
                     (seq-intersection features agreed)
                     (edn-bridge-rpc-connection-plist-frames conn)
                     (and (member "plist-frames" agreed) t)
                     (edn-bridge-rpc-connection-state conn) 'ready)
               (funcall (edn-bridge-rpc-connection-on-ready conn) conn)))
           :on-error
           (lambda (frame)
             (when (edn-bridge-rpc-live-p conn)
               (edn-bridge-rpc-close
                conn (format "handshake refused: %s"
                             (plist-get frame :error-message))))))))
    (edn-bridge-rpc--await-handshake
     conn (list :id id :kind :request :op "handshake" :params params)
     (file-remote-p default-directory))))

(defun edn-bridge-rpc--await-handshake (conn frame host)
  "Send FRAME, the handshake of CONN, again where no answer comes.
After `edn-bridge-rpc-request-timeout' seconds CONN is closed; HOST, where
the program runs, or nil, tells what to say then."
  (cl-flet ((later (seconds function)
              (run-at-time seconds nil
                           (lambda ()
                             (when (eq (edn-bridge-rpc-connection-state conn)
                                       'starting)
                               (funcall function))))))
    (later edn-bridge-rpc--handshake-again
           (lambda () (edn-bridge-rpc--send conn frame)))
    (later edn-bridge-rpc-request-timeout
           (lambda ()
             (edn-bridge-rpc-close
              conn
              (format "no answer to the handshake within %s seconds%s"
                      edn-bridge-rpc-request-timeout
                      (if host
                          (format "; see whether %s runs the program by hand, or forget the connection by M-x tramp-cleanup-connection and reconnect"
                                  host)
                        "")))
             ;; It does not answer, and so it will not end by itself either.
             (edn-bridge-rpc-when-ended conn #'ignore)))))

;;;; Lines in

(defconst edn-bridge-rpc--garbage (* 16 1024 1024)
  "How many bytes one run of dispatching may leave to the garbage collector.")

(defun edn-bridge-rpc--receive (conn chunk)
  "Cut CHUNK, bytes from the process of CONN, into lines for the dispatch."
  (let ((start 0)
        (newline (string-search "\n" chunk)))
    (while newline
      (let ((line (substring chunk start newline)))
        (when (edn-bridge-rpc-connection-pieces conn)
          (setq line (cons line (edn-bridge-rpc-connection-pieces conn)))
          (setf (edn-bridge-rpc-connection-pieces conn) nil))
        (edn-bridge-rpc--enqueue conn line))
      (setq start (1+ newline)
            newline (string-search "\n" chunk start)))
    (when (< start (length chunk))
      (push (if (zerop start) chunk (substring chunk start))
            (edn-bridge-rpc-connection-pieces conn)))
    (when (and (edn-bridge-rpc-connection-lines conn)
               (edn-bridge-rpc-live-p conn))
      (edn-bridge-rpc--schedule conn 0))))

(defun edn-bridge-rpc--enqueue (conn line)
  "Put LINE behind the lines that CONN has to dispatch.
It is a string, or a list of the strings that make it up, last first."
  (let ((cell (list line)))
    (if (edn-bridge-rpc-connection-lines conn)
        (setcdr (edn-bridge-rpc-connection-lines-tail conn) cell)
      (setf (edn-bridge-rpc-connection-lines conn) cell))
    (setf (edn-bridge-rpc-connection-lines-tail conn) cell)))

(defun edn-bridge-rpc--schedule (conn seconds)
  "Have the lines of CONN dispatched SECONDS from now."
  (unless (edn-bridge-rpc-connection-timer conn)
    (setf (edn-bridge-rpc-connection-timer conn)
          (run-at-time seconds nil
                       (lambda ()
                         (setf (edn-bridge-rpc-connection-timer conn) nil)
                         (edn-bridge-rpc--dispatch conn))))))

(defun edn-bridge-rpc--dispatch (conn)
  "Dispatch lines of CONN in order, for a limited time.
Where this is called while a line is being dispatched, by a handler that
waits for something, it continues with the next lines: their order holds."
  (when (edn-bridge-rpc-connection-lines conn)
    (let ((deadline (+ (float-time) edn-bridge-rpc-dispatch-seconds))
          ;; A long line is copied a few times on its way: without this,
          ;; each copy could cost a garbage collection.
          (gc-cons-threshold (max gc-cons-threshold edn-bridge-rpc--garbage)))
      (cl-letf (((edn-bridge-rpc-connection-dispatching conn) t))
        (while (and (edn-bridge-rpc-connection-lines conn)
                    (edn-bridge-rpc-live-p conn)
                    (progn
                      (edn-bridge-rpc--dispatch-line
                       conn (pop (edn-bridge-rpc-connection-lines conn)))
                      (< (float-time) deadline))
                    (not (input-pending-p))))
        (edn-bridge-rpc--guard conn "batch"
          (funcall (edn-bridge-rpc-connection-on-batch conn) conn))
        (edn-bridge-rpc--acknowledge conn))
      (when (and (edn-bridge-rpc-connection-lines conn)
                 (edn-bridge-rpc-live-p conn))
        (edn-bridge-rpc--schedule conn 0.001)))))

(defconst edn-bridge-rpc--acknowledge-every 64
  "Number of shown events after which the bridge receives an `ack'.")

(defun edn-bridge-rpc--acknowledge (conn)
  "Tell the bridge how far the events of CONN are shown, where it asks.
It merges what piles up before a client that is slow to show it."
  (let ((seq (edn-bridge-rpc-connection-seq conn)))
    (when (and (edn-bridge-rpc-ready-p conn)
               (edn-bridge-rpc-feature-p conn "flow-credit")
               (>= (- seq (edn-bridge-rpc-connection-acknowledged conn))
                   edn-bridge-rpc--acknowledge-every))
      (setf (edn-bridge-rpc-connection-acknowledged conn) seq)
      (edn-bridge-rpc-request conn "ack" (list :seq seq)
                              :on-success #'ignore :on-error #'ignore))))

(defun edn-bridge-rpc--dispatch-line (conn line)
  "Read LINE, which CONN received, and call its receiver.
It is a string of bytes, or a list of such, last first."
  (when (consp line)
    (setq line (apply #'concat (nreverse line))))
  (edn-bridge-rpc--log conn 'in line)
  (condition-case err
      (let ((frame (if (edn-bridge-rpc-connection-plist-frames conn)
                       (edn-bridge-edn-read-plist-bytes line)
                     (edn-bridge-edn-read-bytes line))))
        (edn-bridge-rpc--guard conn "frame"
          (edn-bridge-rpc--dispatch-frame conn frame)))
    (edn-bridge-edn-error
     (edn-bridge-rpc--log conn 'note
                          (format "unreadable line: %s"
                                  (error-message-string err))))))

(defun edn-bridge-rpc--dispatch-frame (conn frame)
  "Call the receiver of FRAME of CONN."
  (pcase (plist-get frame :kind)
    (:event
     (when-let ((seq (plist-get frame :seq)))
       (let ((gap (> seq (1+ (edn-bridge-rpc-connection-seq conn)))))
         (setf (edn-bridge-rpc-connection-seq conn) seq)
         (when gap
           (edn-bridge-rpc--log conn 'note "events are missing")
           (funcall (edn-bridge-rpc-connection-on-gap conn) conn))))
     (setf (edn-bridge-rpc-connection-event conn) frame)
     (funcall (edn-bridge-rpc-connection-on-event conn)
              conn (plist-get frame :event) (plist-get frame :data)))
    (:response
     (when-let ((request (edn-bridge-rpc--take conn frame)))
       (when (nth 1 request)
         (funcall (nth 1 request) (plist-get frame :data)))))
    (:error
     (if-let ((request (edn-bridge-rpc--take conn frame)))
         (edn-bridge-rpc--fail request frame)
       (message "%s: %s" (edn-bridge-rpc-connection-name conn)
                (plist-get frame :error-message))))
    (kind
     (edn-bridge-rpc--log conn 'note (format "unknown kind of frame: %S" kind)))))

(defun edn-bridge-rpc--take (conn frame)
  "Return the request of CONN that FRAME answers, which is pending no more."
  (let ((id (plist-get frame :id)))
    (prog1 (gethash id (edn-bridge-rpc-connection-pending conn))
      (remhash id (edn-bridge-rpc-connection-pending conn)))))

(defun edn-bridge-rpc--fail (request frame)
  "Call the error handler of REQUEST with the error FRAME."
  (pcase-let ((`(,op ,_ ,on-error) request))
    (if on-error
        (funcall on-error frame)
      (message "edn-bridge: %s: %s" op (plist-get frame :error-message)))))

;;;; What watches

(defun edn-bridge-rpc--log (conn direction text)
  "Show TEXT, which CONN sent or received by DIRECTION, to the log."
  (when edn-bridge-rpc-log-functions
    (edn-bridge-rpc--guard conn "log"
      (run-hook-with-args 'edn-bridge-rpc-log-functions
                          conn direction text))))

(provide 'edn-bridge-rpc)

;;; edn-bridge-rpc.el ends here
