;;; edn-bridge-test-support.el --- What the tests share  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Connections without a process, fed with recorded bytes, and chats with
;; the real program.

;;; Code:

(require 'cl-lib)
(require 'ert)
(require 'edn-bridge)

;; What a test starts ends with it; the tests of the daemon ask for one.
(setenv "EDN_BRIDGE_DAEMON" "never")

;; The tests keep nothing in the folder of whoever runs them.
(setq edn-bridge-drafts-file nil)

(defconst edn-bridge-test-directory
  (file-name-directory (or load-file-name buffer-file-name))
  "The folder of the tests.")

(defun edn-bridge-test-bytes (name)
  "Return the bytes of the file NAME in the folder of recorded frames."
  (with-temp-buffer
    (set-buffer-multibyte nil)
    (insert-file-contents-literally
     (expand-file-name (concat "frames/" name) edn-bridge-test-directory))
    (buffer-string)))

(defmacro edn-bridge-test-with-connection (spec &rest body)
  "Run BODY with a connection without a process.
SPEC is (CONN SENT EVENTS): CONN is bound to it, SENT to what is sent
\(frames, last first) and EVENTS to what came (topic and data, last first)."
  (declare (indent 1) (debug t))
  (pcase-let ((`(,conn ,sent ,events) spec))
    `(let* ((,sent nil)
            (,events nil)
            (,conn (edn-bridge-rpc--make-connection
                    :name "test"
                    :state 'ready
                    :pending (make-hash-table :test #'equal)
                    :on-event (lambda (_conn topic data)
                                (push (cons topic data) ,events))
                    :on-batch #'ignore
                    :on-ready #'ignore
                    :on-close #'ignore
                    :on-gap #'ignore)))
       (cl-letf (((symbol-function 'edn-bridge-rpc--send)
                  (lambda (_conn frame) (push frame ,sent))))
         ,@body))))

(defun edn-bridge-test-feed (conn bytes &optional size)
  "Give BYTES to CONN, in chunks of SIZE where it is not nil, and dispatch."
  (let ((start 0))
    (while (< start (length bytes))
      (let ((end (min (length bytes) (+ start (or size (length bytes))))))
        (edn-bridge-rpc--receive conn (substring bytes start end))
        (setq start end))))
  (edn-bridge-test-dispatch conn))

(defun edn-bridge-test-dispatch (conn)
  "Dispatch all lines that CONN has."
  (while (edn-bridge-rpc-connection-lines conn)
    (edn-bridge-rpc--dispatch conn))
  (when (edn-bridge-rpc-connection-timer conn)
    (cancel-timer (edn-bridge-rpc-connection-timer conn))
    (setf (edn-bridge-rpc-connection-timer conn) nil)))

(defmacro edn-bridge-test-with-chat (spec &rest body)
  "Run BODY in a chat buffer whose connection has no process.
SPEC is (CONN SENT)."
  (declare (indent 1) (debug t))
  (pcase-let ((`(,conn ,sent) spec))
    `(edn-bridge-test-with-connection (,conn ,sent events)
       (let ((buffer (generate-new-buffer "*edn-bridge: test*")))
         (unwind-protect
             (with-current-buffer buffer
               (edn-bridge-chat-mode)
               (setf (edn-bridge-rpc-connection-context ,conn) buffer
                     (edn-bridge-rpc-connection-on-gap ,conn)
                     #'edn-bridge-chat--on-gap
                     (edn-bridge-rpc-connection-on-event ,conn)
                     #'edn-bridge-chat--on-event
                     (edn-bridge-rpc-connection-on-batch ,conn)
                     #'edn-bridge-chat--on-batch
                     (edn-bridge-rpc-connection-on-close ,conn)
                     #'edn-bridge-chat--on-close)
               (setq edn-bridge-chat--conn ,conn
                     edn-bridge-chat--session-id "s1")
               ,@body)
           (with-current-buffer buffer
             (remove-hook 'kill-buffer-hook #'edn-bridge-chat--on-kill t)
             (kill-buffer buffer)))))))

(defun edn-bridge-test-event (conn topic &rest data)
  "Have CONN receive an event of TOPIC with DATA, and show it."
  (edn-bridge-chat--on-event conn topic data)
  (edn-bridge-chat--on-batch conn))

(defun edn-bridge-test-caused (conn id topic &rest data)
  "Have CONN receive an event of TOPIC with DATA, caused by its request ID."
  (edn-bridge-rpc--dispatch-frame
   conn (list :kind :event :id id :event topic :data data))
  (edn-bridge-chat--on-batch conn))

(defun edn-bridge-test-answer (conn sent op &rest data)
  "Answer the last request of OP in SENT on CONN with DATA."
  (let ((request (cl-find op sent :key (lambda (frame) (plist-get frame :op))
                          :test #'equal)))
    (should request)
    (edn-bridge-rpc--dispatch-frame
     conn (list :id (plist-get request :id) :kind :response :op op
                :ok t :data data))))

(defun edn-bridge-test-transcript ()
  "Return the text of the transcript of the current chat buffer, as copied."
  (substring-no-properties
   (edn-bridge-visible-unbroken (point-min) (edn-bridge-transcript-end))))

(defun edn-bridge-test-ask (conn kind payload &rest more)
  "Have CONN receive a question of KIND with PAYLOAD and MORE."
  (apply #'edn-bridge-test-event conn "interaction/requested"
         :interaction-id "i1" :kind kind :correlation-id "t1"
         :session-id "s1" :payload payload more))

(defun edn-bridge-test-push (label)
  "Push the button whose label begins with LABEL."
  (goto-char (point-min))
  (search-forward (concat "[" label))
  (push-button (1- (point))))

(defmacro edn-bridge-test-wait (condition &optional seconds)
  "Wait until CONDITION is non-nil and return it; fail after SECONDS (20)."
  `(let ((deadline (+ (float-time) ,(or seconds 20)))
         (value nil))
     (while (and (not (setq value ,condition))
                 (< (float-time) deadline))
       (accept-process-output nil 0.02))
     (unless value
       (ert-fail (list "waited in vain for" ',condition
                       (buffer-substring-no-properties (point-min)
                                                       (point-max)))))
     value))

(defvar native-comp-enable-subr-trampolines)
(defvar comp-enable-subr-trampolines)

(defmacro edn-bridge-test-blind (&rest body)
  "Run BODY while nothing of Emacs may look at the files of the test."
  (declare (indent 0) (debug t))
  `(cl-letf ((native-comp-enable-subr-trampolines nil)
             (comp-enable-subr-trampolines nil)
             ,@(mapcar (lambda (function)
                         `((symbol-function ',function)
                           (lambda (&rest _)
                             (error "%s was called" ',function))))
                       '(insert-file-contents write-region revert-buffer
                         file-attributes file-exists-p file-truename
                         verify-visited-file-modtime save-buffer
                         file-writable-p find-buffer-visiting
                         ask-user-about-lock
                         userlock--ask-user-about-supersession-threat)))
     ,@body))

(provide 'edn-bridge-test-support)

;;; edn-bridge-test-support.el ends here
