;;; edn-bridge-hands.el --- Tools that Emacs has for the agent  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Elisp functions as tools of the agent: `edn-bridge-define-tool' defines
;; one, each chat offers them, and here their calls are made.  The bridge
;; judges each call; it has the tools as long as this Emacs is connected.
;; The tools that the package has itself are in edn-bridge-hands-tools.el.
;;
;; A call of a tool that changes nothing runs when Emacs is idle, and whatever
;; the user types ends it: it is tried again when they pause.  A call of one
;; that changes something is made once.  Calls ask nothing, and what they
;; return is bounded.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-interact)

(defconst edn-bridge-hands--size 20000
  "How many characters a tool returns at most.")

(defconst edn-bridge-hands--seconds 20
  "After how many seconds a call ends that waits for something.")

(defconst edn-bridge-hands--parallel 16
  "How many calls may wait in one chat.")

;;;; Defining tools

(cl-defstruct (edn-bridge-hands-tool (:copier nil))
  "A tool that Emacs has for the agent."
  name                       ; for the model
  description                ; for the model
  schema                     ; of its arguments
  path                       ; argument with a path that the bridge judges
  changes                    ; non-nil if it changes something
  asks                       ; non-nil if the user is asked each time
  seconds                    ; the time that the bridge gives it
  offered                    ; function: whether the current chat offers it
  function)                  ; of the arguments, a property list

(defvar edn-bridge-hands--all nil
  "The tools, an `edn-bridge-hands-tool' each, in the order of their definition.")

(defconst edn-bridge-hands--types
  '((string . stringp) (integer . integerp) (number . numberp)
    (boolean . edn-bridge-hands--boolean-p))
  "Types of arguments, each with the function that a value fulfils.")

(defun edn-bridge-hands--boolean-p (value)
  "Return non-nil if VALUE is true or false as the bridge sends it."
  (memq value '(t nil :false)))

(defun edn-bridge-hands--key (argument)
  "Return the key of ARGUMENT, a symbol, in what the bridge sends."
  (intern (format ":%s" argument)))

(defun edn-bridge-hands--required (arglist)
  "Return those of ARGLIST that a call must have."
  (seq-take-while (lambda (argument) (not (eq argument '&optional))) arglist))

(defun edn-bridge-hands--check-definition (name arglist args keys)
  "Signal an error if the tool NAME cannot be defined so.
ARGLIST are its arguments, ARGS describes them, and KEYS is what its
definition says besides."
  (unless (and (symbolp name)
               (string-match-p "\\`[A-Za-z0-9_-]\\{1,64\\}\\'" (symbol-name name)))
    (error "A tool's name has letters, digits, - and _ alone: %s" name))
  (dolist (argument arglist)
    (cond ((eq argument '&optional))
          ((memq argument '(&rest &key))
           (error "The tool %s cannot have %s" name argument))
          ((not (assq argument args))
           (error "The tool %s does not describe its argument %s"
                  name argument))))
  (pcase-dolist (`(,argument ,type ,text) args)
    (unless (memq argument arglist)
      (error "The tool %s has no argument %s" name argument))
    (unless (assq type edn-bridge-hands--types)
      (error "The argument %s of the tool %s has no known type: %s"
             argument name type))
    (unless (stringp text)
      (error "The argument %s of the tool %s is not described" argument name)))
  (cl-loop for (key _value) on keys by #'cddr
           unless (memq key '(:args :changes :path :asks :seconds :if))
           do (error "The tool %s cannot have %s" name key)))

;;;###autoload
(defmacro edn-bridge-define-tool (name arglist docstring &rest body)
  "Define NAME, a symbol, as a tool of the agent in every chat.
ARGLIST are its arguments, as in a function; those after `&optional' may be
missing.  DOCSTRING tells the model what the tool does.  BODY begins with
keywords and their values:

  `:args'     the arguments: a list of (ARGUMENT TYPE TEXT), where TYPE is
              `string', `integer', `number' or `boolean' and TEXT is for
              the model
  `:changes'  nil if the tool changes nothing, in Emacs or elsewhere.  Then
              the bridge may run it without a question, and what the user
              types ends a call, which is made again later.  The default
              is t
  `:path'     the argument that names a file; the bridge judges it as it
              does the files of its own tools
  `:asks'     non-nil if the user is asked for each call, whatever a rule
              or the permission mode allows
  `:seconds'  how long a call may take, by default 60
  `:if'       a form; in a chat in which it is nil the tool is not offered

The other forms of BODY are run in the buffer of the chat.  Their value is
the answer: a string, or what is printed.  They cannot ask the user.

\(edn-bridge-define-tool my-agenda (days)
  \"Return the agenda entries of the next DAYS days.\"
  :args ((days integer \"How many days\"))
  :changes nil
  (my-agenda-text days))"
  (declare (indent defun) (doc-string 3))
  (let ((keys nil))
    (while (keywordp (car body))
      (setq keys (append keys (list (pop body) (pop body)))))
    (let ((args (plist-get keys :args)))
      (edn-bridge-hands--check-definition name arglist args keys)
      `(edn-bridge-hands--define
        (make-edn-bridge-hands-tool
         :name ,(symbol-name name)
         :description ,docstring
         :schema (edn-bridge-hands--schema ',arglist ',args)
         :path ,(and (plist-get keys :path)
                     (symbol-name (plist-get keys :path)))
         :changes ,(if (plist-member keys :changes)
                       (plist-get keys :changes)
                     t)
         :asks ,(plist-get keys :asks)
         :seconds ,(or (plist-get keys :seconds) 60)
         :offered (lambda () ,(if (plist-member keys :if)
                                  (plist-get keys :if)
                                t))
         :function (lambda (arguments)
                     (apply (lambda ,arglist ,@body)
                            (edn-bridge-hands--values
                             ',arglist ',args arguments))))))))

(defun edn-bridge-hands--schema (arglist args)
  "Return the schema of the arguments ARGLIST, which ARGS describes."
  (let ((required (mapcar #'symbol-name (edn-bridge-hands--required arglist))))
    (append
     (list :type "object"
           :properties
           (if (null args)
               (make-hash-table)
             (cl-loop for (argument type text) in args
                      append (list (edn-bridge-hands--key argument)
                                   (list :type (symbol-name type)
                                         :description text)))))
     (and required (list :required (vconcat required))))))

(defun edn-bridge-hands--values (arglist args arguments)
  "Return the values of ARGLIST, which ARGS describes, in ARGUMENTS.
One that is missing or of another type is an error, which the model gets."
  (let ((required (edn-bridge-hands--required arglist)))
    (cl-loop
     for argument in (delq '&optional (copy-sequence arglist))
     for type = (nth 1 (assq argument args))
     for value = (plist-get arguments (edn-bridge-hands--key argument))
     collect
     (cond
      ((null value)
       (if (and (memq argument required) (not (eq type 'boolean)))
           (error "The argument %s is missing" argument)
         nil))
      ((not (funcall (alist-get type edn-bridge-hands--types) value))
       (error "The argument %s is no %s" argument type))
      ((eq value :false) nil)
      (t value)))))

(defun edn-bridge-hands--define (tool)
  "Have TOOL offered in every chat, in place of one of the same name."
  (let ((known (seq-position edn-bridge-hands--all tool
                             (lambda (a b)
                               (equal (edn-bridge-hands-tool-name a)
                                      (edn-bridge-hands-tool-name b))))))
    (if known
        (setf (nth known edn-bridge-hands--all) tool)
      (setq edn-bridge-hands--all
            (append edn-bridge-hands--all (list tool)))))
  (dolist (buffer (edn-bridge-chat-buffers))
    (with-current-buffer buffer
      (edn-bridge-hands-offer)))
  (intern (edn-bridge-hands-tool-name tool)))

;;;; What is offered

(defun edn-bridge-hands--offered ()
  "Return those of the tools that this chat offers."
  (seq-filter (lambda (tool)
                (ignore-errors (funcall (edn-bridge-hands-tool-offered tool))))
              edn-bridge-hands--all))

(defun edn-bridge-hands--wire (tool)
  "Return TOOL as the bridge takes it."
  (append (list :name (edn-bridge-hands-tool-name tool)
                :description (edn-bridge-hands-tool-description tool)
                :parameters (edn-bridge-hands-tool-schema tool)
                :read-only (edn-bridge-edn-bool
                            (not (edn-bridge-hands-tool-changes tool)))
                :timeout-seconds (edn-bridge-hands-tool-seconds tool))
          (and (edn-bridge-hands-tool-path tool)
               (list :path (edn-bridge-hands-tool-path tool)))))

(defvar-local edn-bridge-hands--told nil
  "What was offered last: connection, session and tools.")

(defun edn-bridge-hands-offer (&optional anew)
  "Offer the tools to the bridge of this chat, if that is news.
With ANEW non-nil it is: this chat is on a session anew."
  (let* ((conn edn-bridge-chat--conn)
         (tools (and (edn-bridge-rpc-ready-p conn)
                     (edn-bridge-hands--offered)))
         (news (list conn edn-bridge-chat--session-id tools)))
    (when (and (edn-bridge-rpc-ready-p conn)
               (or (not (equal news edn-bridge-hands--told))
                   anew)
               (or tools edn-bridge-hands--told))
      (setq edn-bridge-hands--told news)
      (edn-bridge-rpc-request
       conn "register_tools"
       (list :tools (vconcat (mapcar #'edn-bridge-hands--wire tools)))
       :on-success #'ignore
       ;; An older bridge has no such tools, and is no worse off.
       :on-error #'ignore))))

(defun edn-bridge-hands--offer-anew ()
  "Offer the tools to the session that this chat is on now."
  (edn-bridge-hands-offer 'anew))

;;;; Calls

(defvar-local edn-bridge-hands--calls nil
  "Ids of the calls that were asked for and not answered.")

(defvar-local edn-bridge-hands--asked nil
  "Ids of calls about which the bridge asked a question, last first.")

(defun edn-bridge-hands--on-question (data)
  "Note of which call the question in DATA of `interaction/requested' is."
  (when-let ((id (plist-get (plist-get data :payload) :tool-id)))
    (setq edn-bridge-hands--asked
          (seq-take (cons id edn-bridge-hands--asked) 200))))

(defun edn-bridge-hands--on-requested (data)
  "Have the call of DATA of `tool/requested' made, soon."
  (let* ((id (plist-get data :request-id))
         (conn edn-bridge-chat--conn)
         (arguments (plist-get data :arguments))
         (tool (seq-find (lambda (tool)
                           (equal (edn-bridge-hands-tool-name tool)
                                  (plist-get data :tool-name)))
                         (edn-bridge-hands--offered))))
    (cond
     ((null tool)
      (edn-bridge-hands--reply conn id "Emacs has no such tool" t))
     ((>= (length edn-bridge-hands--calls) edn-bridge-hands--parallel)
      (edn-bridge-hands--reply conn id "Emacs is busy with other calls" t))
     (t
      (push id edn-bridge-hands--calls)
      (if (and (edn-bridge-hands-tool-asks tool)
               ;; Where the bridge has asked about this call, it came here
               ;; because a person allowed it.
               (not (member (plist-get data :tool-id) edn-bridge-hands--asked)))
          (edn-bridge-hands--ask conn id tool arguments)
        ;; Not here, where events are dispatched: others would wait.
        (edn-bridge-hands--later 0 conn id tool arguments))))))

(defun edn-bridge-hands--ask (conn id tool arguments)
  "Ask the user about the call ID of CONN, one of TOOL with ARGUMENTS.
It was allowed by a rule or by the permission mode."
  (let* ((buffer (current-buffer))
         (settle
          (lambda (function)
            (lambda ()
              (interactive)
              (if (not (and (buffer-live-p buffer)
                            (member id (buffer-local-value
                                        'edn-bridge-hands--calls buffer))))
                  (message "This call takes no answer any more")
                (with-current-buffer buffer
                  (funcall function)
                  (run-hook-with-args 'edn-bridge-interact-functions nil)))))))
    (edn-bridge-chat-notice
     (format "The agent calls %s in this Emacs:\n%s"
             (edn-bridge-hands-tool-name tool)
             (mapconcat
              (lambda (value)
                (edn-bridge-visible-break
                 (if (stringp value) value (edn-bridge-edn-print-string value))
                 0))
              (cl-loop for (_key value) on arguments by #'cddr collect value)
              "\n"))
     'default
     (list "Run it once"
           (funcall settle
                    (lambda ()
                      (edn-bridge-hands--later 0 conn id tool arguments))))
     (list "Refuse"
           (funcall settle
                    (lambda ()
                      (setq edn-bridge-hands--calls
                            (delete id edn-bridge-hands--calls))
                      (edn-bridge-hands--reply conn id
                                               "The user refused this call" t)))))
    (run-hook-with-args 'edn-bridge-interact-functions
                        (format "Run %s?" (edn-bridge-hands-tool-name tool)))))

(defun edn-bridge-hands--on-cancelled (data)
  "Forget the call that DATA of `request/cancelled' names."
  (setq edn-bridge-hands--calls
        (delete (plist-get data :request-id) edn-bridge-hands--calls)))

(defun edn-bridge-hands--later (seconds conn id tool arguments)
  "Make the call ID of CONN once Emacs is idle for SECONDS.
It is one of TOOL with ARGUMENTS."
  (let ((buffer (current-buffer)))
    (apply (if (zerop seconds) #'run-at-time #'run-with-idle-timer)
           seconds nil
           (list (lambda ()
                   (when (buffer-live-p buffer)
                     (with-current-buffer buffer
                       (when (member id edn-bridge-hands--calls)
                         (edn-bridge-hands--call conn id tool arguments)))))))))

(defun edn-bridge-hands--call (conn id tool arguments)
  "Answer the call ID of CONN with what TOOL says of ARGUMENTS.
Where the user types meanwhile, do so later, unless the tool changes
something: such a call is made once."
  (when (edn-bridge-hands-tool-changes tool)
    (setq edn-bridge-hands--calls (delete id edn-bridge-hands--calls)))
  (let ((answer (edn-bridge-hands--answer (edn-bridge-hands-tool-function tool)
                                          arguments
                                          (edn-bridge-hands-tool-changes tool))))
    (if (not (consp answer))
        (edn-bridge-hands--later 0.5 conn id tool arguments)
      (setq edn-bridge-hands--calls (delete id edn-bridge-hands--calls))
      (edn-bridge-hands--reply conn id (cdr answer) (eq (car answer) 'error)))))

(defun edn-bridge-hands--answer (function arguments &optional once)
  "Return what FUNCTION says of ARGUMENTS, or nil if the user typed meanwhile.
It is a cons of `ok' or `error' and a text.  With ONCE non-nil, what the
user types does not end it; \\[keyboard-quit] does, and is an error."
  (save-excursion
    (save-match-data
      (if once
          (condition-case nil
              (edn-bridge-hands--evaluate function arguments)
            (quit (cons 'error "The user ended this call")))
        (let ((answer (while-no-input
                        (edn-bridge-hands--evaluate function arguments))))
          (and (consp answer) answer))))))

(defun edn-bridge-hands--evaluate (function arguments)
  "Return what FUNCTION says of ARGUMENTS: a cons of `ok' or `error' and a text."
  (condition-case err
      (let* ((inhibit-interaction t)
             (inhibit-message t)
             (non-essential t)
             (timeout (list nil))
             (value (with-timeout (edn-bridge-hands--seconds timeout)
                      (funcall function arguments))))
        (cons 'ok
              (cond ((eq value timeout) (error "It took too long"))
                    ((stringp value) value)
                    (t (edn-bridge-hands--printed value)))))
    (error
     (cons 'error (error-message-string err)))))

(defun edn-bridge-hands--printed (value)
  "Return VALUE, of a tool, as a text."
  (let ((print-length 200)
        (print-level 8)
        (print-circle t))
    (prin1-to-string value)))

(defun edn-bridge-hands--reply (conn id text failed)
  "Answer the call ID of CONN with TEXT; with FAILED, as an error."
  (when (edn-bridge-rpc-live-p conn)
    (edn-bridge-rpc-request
     conn "tool_result"
     (list :request-id id
           :text (if (> (length text) edn-bridge-hands--size)
                     (concat (substring text 0 edn-bridge-hands--size)
                             "\n(the rest is left out)")
                   text)
           :is-error (edn-bridge-edn-bool failed))
     :on-success #'ignore
     ;; It may have been cancelled.
     :on-error #'ignore)))

;;;; Registering

(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge-hands--offer-anew)
(add-hook 'edn-bridge-input-send-hook #'edn-bridge-hands-offer)
(edn-bridge-chat-handle "interaction/requested"
                        #'edn-bridge-hands--on-question)
(edn-bridge-chat-handle "tool/requested" #'edn-bridge-hands--on-requested)
(edn-bridge-chat-handle "request/cancelled" #'edn-bridge-hands--on-cancelled)

(provide 'edn-bridge-hands)

;;; edn-bridge-hands.el ends here
